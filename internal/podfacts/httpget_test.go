package podfacts

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func TestHTTPTarget(t *testing.T) {
	for _, c := range []struct{ path, scheme, host, want string }{
		{"", "", "10.0.0.1", "http://10.0.0.1:80/"},
		{"healthz", "HTTPS", "10.0.0.1", "https://10.0.0.1:80/healthz"},
		{"/a?b=c&d", "http", "fd00::1", "http://[fd00::1]:80/a?b=c&d"},
		{"a%2Fb", "", "h", "http://h:80/a%2Fb"},
		{"%zz", "", "h", "http://h:80/%25zz"},
		{"mailto:x", "", "h", "http://h:80/mailto:x"},
		{"//user:secret@elsewhere/a", "", "h", "http://h:80/a"},
	} {
		action := &v1.HTTPGetAction{Path: c.path, Scheme: v1.URIScheme(c.scheme)}
		require.Equal(t, c.want, HTTPTarget(action, c.host, 80).String(), c.path)
	}
}

func TestHTTPHeader(t *testing.T) {
	header := func(own ...v1.HTTPHeader) http.Header {
		return HTTPHeader(&v1.HTTPGetAction{HTTPHeaders: own}, "kube-probe/1.36")
	}
	require.Equal(t, http.Header{"User-Agent": {"kube-probe/1.36"}, "Accept": {"*/*"}}, header())
	require.Equal(t, http.Header{"User-Agent": {""}, "X-A": {"1", "2"}},
		header(v1.HTTPHeader{Name: "accept"}, v1.HTTPHeader{Name: "User-Agent"}, v1.HTTPHeader{Name: "x-a", Value: "1"}, v1.HTTPHeader{Name: "X-A", Value: "2"}))
}
