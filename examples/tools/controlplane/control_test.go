package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestControlEndpoint(t *testing.T) {
	b, _ := smallBuilder(t)
	a, err := newAuthority(time.Now())
	require.NoError(t, err)
	script, _ := scripted(t, `echo made > $1; exec sleep 60`)
	c := &cluster{builder: b, authority: a, port: 6443, dir: "/run/cp", components: map[string]*component{scheduler: script}}
	handler := c.handler()
	ask := func(method, path string) (int, string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		return w.Code, w.Body.String()
	}

	code, text := ask(http.MethodGet, "/")
	require.Equal(t, http.StatusOK, code)
	var d description
	require.NoError(t, json.Unmarshal([]byte(text), &d))
	require.Equal(t, "https://127.0.0.1:6443", d.URL)
	require.Equal(t, "/run/cp/ca.crt", d.CA)

	for path, server := range map[string]string{
		"/kubeconfig?user=me":                      "https://127.0.0.1:6443",
		"/kubeconfig?user=me&server=https://proxy": "https://proxy",
	} {
		code, text = ask(http.MethodGet, path)
		require.Equal(t, http.StatusOK, code, text)
		require.Contains(t, text, `"`+server+`"`)
	}

	code, text = ask(http.MethodGet, "/programs/kubectl")
	require.Equal(t, http.StatusOK, code, text)
	require.FileExists(t, text)
	require.Equal(t, "kubectl", filepath.Base(text))

	for _, verb := range []string{"start", "pause", "resume", "stop", "start", "kill"} {
		code, text = ask(http.MethodPost, "/kube-scheduler/"+verb)
		require.Equal(t, http.StatusOK, code, text)
		require.Equal(t, verb != "stop" && verb != "kill", script.running(), verb)
	}

	for request, reason := range map[string]string{
		"GET /kubeconfig":                   "user is required",
		"GET /kubeconfig?user=me&valid=day": "invalid duration",
		"GET /programs/kube-proxy":          `unknown program "kube-proxy"`,
		"POST /kube-proxy/stop":             `unknown component "kube-proxy"`,
		"POST /kube-scheduler/dance":        `unknown verb "dance"`,
		"POST /kube-scheduler/pause":        "does not run",
	} {
		method, path, _ := strings.Cut(request, " ")
		code, text = ask(method, path)
		require.Equal(t, http.StatusInternalServerError, code, request)
		require.Contains(t, text, reason, request)
	}
}
