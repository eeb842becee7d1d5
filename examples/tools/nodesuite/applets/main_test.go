package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseCurl(t *testing.T) {
	r, err := parseCurl([]string{"-g", "-q", "-s", "--max-time", "15", "--connect-timeout", "1", "10.0.0.1:80/hostName"})
	require.NoError(t, err)
	require.Equal(t, request{url: "http://10.0.0.1:80/hostName", connect: time.Second, total: 15 * time.Second}, r)
	for _, args := range [][]string{nil, {"-o"}, {"--max-time", "x", "u"}, {"-X", "u"}, {"u", "v"}} {
		_, err := parseCurl(args)
		require.Error(t, err, args)
	}
}

func TestCurl(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte("body"))
	}))
	defer server.Close()
	var out strings.Builder
	require.NoError(t, curl([]string{"-s", server.URL}, &out))
	require.Equal(t, "body", out.String())
	out.Reset()
	require.NoError(t, curl([]string{"-o", "/dev/null", "-i", "-w", "%{http_code}", server.URL}, &out))
	require.Equal(t, "418", out.String())
}
