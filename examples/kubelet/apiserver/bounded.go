package apiserver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxResponse bounds the body of a response other than a watch, in bytes, after decompression. It
// is above a list of 10,000 Services, the largest that a node reads.
const maxResponse = 32 << 20

// bounded is a transport whose response bodies end with an error after maxResponse bytes, and the
// bodies of watches after an event of that size. The decoder bounds events in protobuf, but not in
// JSON.
type bounded struct{ next http.RoundTripper }

// WrappedRoundTripper returns the wrapped transport for apimachinery.
func (b bounded) WrappedRoundTripper() http.RoundTripper { return b.next }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err != nil || response.StatusCode == http.StatusSwitchingProtocols {
		return response, err
	}
	switch {
	case response.StatusCode != http.StatusOK || !r.URL.Query().Has("watch"):
		response.Body = &boundedBody{ReadCloser: response.Body, left: maxResponse}
	case !strings.HasPrefix(response.Header.Get("Content-Type"), "application/vnd.kubernetes.protobuf"):
		response.Body = &boundedEvents{ReadCloser: response.Body, left: maxResponse}
	}
	return response, nil
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // one more byte shows that the body is too large
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("response exceeds the limit of %d bytes", int64(maxResponse))
	}
	return n, err
}

// boundedEvents is a sequence of JSON objects, each with maxResponse bytes at most.
type boundedEvents struct {
	io.ReadCloser
	left             int64 // of the current object
	depth            int   // of brackets
	inText, inEscape bool
}

func (b *boundedEvents) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	for _, c := range p[:n] {
		b.left--
		switch {
		case b.inEscape:
			b.inEscape = false
		case b.inText:
			b.inEscape, b.inText = c == '\\', c != '"'
		case c == '"':
			b.inText = true
		case c == '{' || c == '[':
			b.depth++
		case c == '}' || c == ']':
			if b.depth--; b.depth <= 0 {
				b.depth, b.left = 0, maxResponse
			}
		}
		if b.left < 0 {
			return 0, fmt.Errorf("watch event exceeds the limit of %d bytes", int64(maxResponse))
		}
	}
	return n, err
}
