package apiserver

import (
	"fmt"
	"io"
	"net/http"
)

// maxResponse bounds the body of a response other than a watch, in bytes, after decompression. It
// is above a list of 10,000 Services, the largest that a node reads.
const maxResponse = 32 << 20

// bounded is a transport whose response bodies end with an error after maxResponse bytes. It does
// not bound watches, whose events the decoder bounds.
type bounded struct{ next http.RoundTripper }

// WrappedRoundTripper returns the wrapped transport for apimachinery.
func (b bounded) WrappedRoundTripper() http.RoundTripper { return b.next }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err == nil && response.StatusCode != http.StatusSwitchingProtocols && !r.URL.Query().Has("watch") {
		response.Body = &boundedBody{ReadCloser: response.Body, left: maxResponse}
	}
	return response, err
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
