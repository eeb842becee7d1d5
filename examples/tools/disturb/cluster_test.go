package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// An absent object is no error of get and remove, and an existing one no error of create. Objects
// are sent as JSON.
func TestRequests(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		switch {
		case err != nil || string(body) != map[string]string{http.MethodPost: `{"metadata":{"name":"a"}}`}[r.Method]:
			w.WriteHeader(http.StatusBadRequest)
		case r.URL.Path == "/refused":
			w.WriteHeader(http.StatusForbidden)
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusConflict)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	c := &cluster{client: server.Client(), url: server.URL}
	body, err := c.get(t.Context(), "/x")
	require.NoError(t, err)
	require.Empty(t, body)
	_, err = c.get(t.Context(), "/refused")
	require.EqualError(t, err, "status 403: ")
	require.NoError(t, c.remove(t.Context(), "/x"))
	require.NoError(t, c.create(t.Context(), "/x", "{metadata: {name: a}}"))
}
