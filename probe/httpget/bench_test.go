package httpget

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/probe"
)

// BenchmarkProbe measures a probe of a server on this machine, including the server's part.
func BenchmarkProbe(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	defer server.Close()
	p := newProber(b)
	to := target(server.Listener.Addr(), "/healthz")
	b.ReportAllocs()
	for b.Loop() {
		got, err := p.Probe(b.Context(), to)
		require.NoError(b, err)
		require.Equal(b, probe.Success, got.Verdict)
	}
}
