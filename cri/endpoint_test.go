package cri

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseEndpoint(t *testing.T) {
	for _, c := range []struct{ endpoint, socket string }{
		{"", "/run/containerd/containerd.sock"},
		{"unix:///run/crio/crio.sock", "/run/crio/crio.sock"},
		{"unix:/run/crio/crio.sock", "/run/crio/crio.sock"},
		{"/run/crio/crio.sock", "/run/crio/crio.sock"},
		{"/run/odd name?#%41://x", "/run/odd name?#%41://x"},
		{"/" + strings.Repeat("x", 106), "/" + strings.Repeat("x", 106)},
	} {
		socket, err := ParseEndpoint(c.endpoint)
		require.NoError(t, err)
		require.Equal(t, c.socket, socket)
	}
}

func TestParseEndpointRefuses(t *testing.T) {
	for _, c := range []struct{ endpoint, problem string }{
		{"containerd.sock", "neither"},
		{" ", "neither"},
		{"tcp://127.0.0.1:1234", `scheme "tcp"`},
		{"npipe:////./pipe/containerd", `scheme "npipe"`},
		{"UNIX:///run/x.sock", `scheme "UNIX"`},
		{"unix://run/x.sock", `"run/x.sock" is not absolute`},
		{"unix://", "not absolute"},
		{"unix:", "not absolute"},
		{"/run/containerd/", "slash"},
		{"/", "slash"},
		{"/run/x.sock\n", "control character"},
		{"/run/\x00", "control character"},
		{"/" + strings.Repeat("x", 107), "108 bytes"},
	} {
		socket, err := ParseEndpoint(c.endpoint)
		require.Empty(t, socket)
		var e *EndpointError
		require.ErrorAs(t, err, &e, "%q", c.endpoint)
		require.Equal(t, c.endpoint, e.Endpoint)
		require.Contains(t, e.Problem, c.problem, "%q", c.endpoint)
	}
}

func FuzzParseEndpoint(f *testing.F) {
	for _, seed := range []string{"", "/run/x.sock", "unix:///run/x.sock", "unix:/x", "tcp://h:1", "unix://h/x", ":", "//", "unix:////", "/\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, endpoint string) {
		socket, err := ParseEndpoint(endpoint)
		if err != nil {
			require.Empty(t, socket)
			var e *EndpointError
			require.ErrorAs(t, err, &e)
			require.Equal(t, endpoint, e.Endpoint)
			return
		}
		require.True(t, path.IsAbs(socket))
		require.LessOrEqual(t, len(socket), 107)
		require.NotContains(t, socket, "\x00")
		// The result is the same for each spelling.
		for _, again := range []string{socket, unixScheme + socket, "unix:" + socket} {
			same, err := ParseEndpoint(again)
			if again == "unix:"+socket && strings.HasPrefix(socket, "//") {
				continue // parsed as unix:// with two slashes removed
			}
			require.NoError(t, err)
			require.Equal(t, socket, same)
		}
	})
}
