package cri

import (
	"fmt"
	"path"
	"strings"
)

// defaultEndpoint is the endpoint of a ClientConfig without one.
const defaultEndpoint = unixScheme + "/run/containerd/containerd.sock"

const (
	unixScheme = "unix://"
	// maxSocketPath is the longest path that fits into a Linux sockaddr_un.
	maxSocketPath = 107
)

// EndpointError is the reason for refusing an endpoint.
type EndpointError struct {
	// Endpoint is the unmodified value.
	Endpoint string
	// Problem describes the defect.
	Problem string
}

// Error returns a text with endpoint and problem.
func (e *EndpointError) Error() string {
	return fmt.Sprintf("endpoint %q: %s", e.Endpoint, e.Problem)
}

// ParseEndpoint returns the socket path of endpoint. It accepts "unix:///run/x.sock",
// "unix:/run/x.sock" and an absolute path. An empty endpoint selects containerd's. The path is
// not unescaped. Errors are of type *EndpointError.
func ParseEndpoint(endpoint string) (socket string, err error) {
	if endpoint == "" {
		endpoint = defaultEndpoint
	}
	socket = endpoint
	if !strings.HasPrefix(endpoint, "/") {
		scheme, rest, found := strings.Cut(endpoint, ":")
		switch {
		case !found:
			return "", &EndpointError{endpoint, "neither a unix:// URL nor an absolute path"}
		case scheme != "unix":
			return "", &EndpointError{endpoint, fmt.Sprintf("scheme %q is not supported, only unix", scheme)}
		}
		socket = strings.TrimPrefix(rest, "//")
	}
	if problem := socketProblem(socket); problem != "" {
		return "", &EndpointError{endpoint, problem}
	}
	return socket, nil
}

func socketProblem(socket string) string {
	switch {
	case !path.IsAbs(socket):
		return fmt.Sprintf("the socket path %q is not absolute", socket)
	case strings.HasSuffix(socket, "/"):
		return "the socket path ends in a slash"
	case strings.ContainsFunc(socket, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "the socket path contains a control character"
	case len(socket) > maxSocketPath:
		return fmt.Sprintf("the socket path has %d bytes, the system allows %d", len(socket), maxSocketPath)
	default:
		return ""
	}
}
