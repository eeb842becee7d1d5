package httpget

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podwright/podwright/probe"
)

// For every handler, the request is sent to its host and port or fails, and has a path.
func FuzzResolve(f *testing.F) {
	f.Add("10.0.0.9", "", "web", "/healthz?x=y", "HTTP")
	f.Add("fd00::9", "", "80", "//evil:1/x", "HTTPS")
	f.Add("", "[::1]", "65536", "http://u:p@evil/", "")
	f.Add("", "a b", "1", "%zz", "")
	f.Add("", "h", "1", "a:b", "x")
	f.Fuzz(func(t *testing.T, podIP, host, port, path, scheme string) {
		target := probe.Target{
			PodIP: podIP, Container: &v1.Container{Ports: []v1.ContainerPort{{Name: "web", ContainerPort: 8080}}},
			Probe: &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{
				Host: host, Port: intstr.FromString(port), Path: path, Scheme: v1.URIScheme(scheme),
			}}},
		}
		u, err := resolve(target)
		if err != nil {
			require.Nil(t, u)
			return
		}
		want := host
		if want == "" {
			want = podIP
		}
		want = strings.TrimSuffix(strings.TrimPrefix(want, "["), "]")
		require.Equal(t, want, strings.TrimSuffix(strings.TrimPrefix(u.Host[:strings.LastIndexByte(u.Host, ':')], "["), "]"))
		require.Nil(t, u.User)
		require.True(t, strings.HasPrefix(u.RequestURI(), "/"), u.RequestURI())
		require.NotContains(t, u.RequestURI(), "\n")
		require.NotContains(t, u.RequestURI(), "\r")
	})
}

// For every response there is a result, without data of the server.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 302 Found\r\nLocation: http://[::1%25x]/\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 500 x\r\nTransfer-Encoding: chunked\r\n\r\nzz"))
	f.Add([]byte("SSH-2.0-OpenSSH_9.9"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		p, err := New(Config{DialContext: answering(answer)})
		require.NoError(t, err)
		target := target(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 80}, "/")
		target.Timeout = 5 * time.Second
		got, err := p.Probe(t.Context(), target)
		require.NoError(t, err)
		require.NotEqual(t, probe.Unknown, got.Verdict)
		require.NotContains(t, got.Output, "\n")
		require.Less(t, len(got.Output), 400)
		if got.Verdict == probe.Success {
			require.Contains(t, string(answer), " 2")
		}
	})
}

// answering returns a dial function for a server that reads a request and writes a response.
func answering(answer []byte) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			_, _ = far.Read(make([]byte, 4096))
			_ = far.SetWriteDeadline(time.Now().Add(5 * time.Second))
			_, _ = far.Write(answer)
		}()
		return near, nil
	}
}
