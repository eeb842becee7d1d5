package podfacts

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func named(ports ...v1.ContainerPort) *v1.Container { return &v1.Container{Ports: ports} }

func TestPort(t *testing.T) {
	c := named(v1.ContainerPort{Name: "http", ContainerPort: 8080}, v1.ContainerPort{ContainerPort: 9}, v1.ContainerPort{Name: "80", ContainerPort: 8081},
		v1.ContainerPort{Name: "zero"}, v1.ContainerPort{Name: "http", ContainerPort: 1})
	for text, want := range map[string]int{
		"http": 8080, "80": 8081, "9090": 9090, "65535": 65535, "1": 1,
		"": 0, "nope": 0, "zero": 0, "0": 0, "-1": 0, "65536": 0, "8080x": 0, " 80": 0, "99999999999999999999": 0,
	} {
		got, err := Port(c, intstr.FromString(text))
		require.Equal(t, want, got, text)
		require.Equal(t, want == 0, err != nil, text)
		if err != nil {
			require.ErrorContains(t, err, strconv.Quote(text))
		}
	}
	got, err := Port(c, intstr.IntOrString{Type: intstr.Int, IntVal: 7, StrVal: "http"})
	require.NoError(t, err)
	require.Equal(t, 7, got)
	for number, ok := range map[int]bool{-1: false, 0: false, 1: true, 65535: true, 65536: false} {
		got, err := Port(c, intstr.FromInt(number))
		require.Equal(t, ok, err == nil, number)
		require.Equal(t, ok, got == number && ok, number)
	}
}

// A returned port is valid, and a port of the container with that name takes precedence.
func FuzzPort(f *testing.F) {
	f.Add("http", "http", int32(8080))
	f.Add("80", "http", int32(8080))
	f.Add("-1", "x", int32(0))
	f.Fuzz(func(t *testing.T, asked, name string, number int32) {
		got, err := Port(named(v1.ContainerPort{Name: name, ContainerPort: number}), intstr.FromString(asked))
		if err != nil {
			require.Zero(t, got)
			return
		}
		require.True(t, got >= 1 && got <= 65535)
		if asked == name && asked != "" {
			require.Equal(t, int(number), got)
			return
		}
		require.Equal(t, strconv.Itoa(got), strings.TrimLeft(strings.TrimPrefix(asked, "+"), "0"))
	})
}

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
