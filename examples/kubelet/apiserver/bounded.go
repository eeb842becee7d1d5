package apiserver

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

const (
	// maxResponse bounds the body of a response other than a watch, in bytes, after decompression. It
	// is above a list of 10,000 Services, the largest that a node reads.
	maxResponse = 32 << 20
	// maxEvent bounds an event of a watch, in bytes. API servers refuse objects of a fifth of it.
	maxEvent = 16 << 20
	// maxTogether bounds all responses that a Client reads at a time, in bytes. The first
	// uncounted bytes of each response and of each event do not count, so that ordinary calls work
	// beside a response without end.
	maxTogether, uncounted = 32 << 20, 64 << 10
)

// bounded is a transport whose response bodies end with an error after maxResponse bytes, and the
// bodies of watches after an event of maxEvent bytes. All of them end with an error above
// maxTogether.
type bounded struct {
	next   http.RoundTripper
	budget *budget
}

// WrappedRoundTripper returns the wrapped transport for apimachinery.
func (b bounded) WrappedRoundTripper() http.RoundTripper { return b.next }

type exceededKey struct{}

// onExceeded returns a context for a request. report is called with the error of a response to it
// that exceeds a limit.
func onExceeded(ctx context.Context, report func(error)) context.Context {
	return context.WithValue(ctx, exceededKey{}, report)
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err != nil || response.StatusCode == http.StatusSwitchingProtocols {
		return response, err
	}
	body := &boundedBody{ReadCloser: response.Body, share: share{budget: b.budget}, kind: "response", limit: maxResponse, split: whole}
	body.report, _ = r.Context().Value(exceededKey{}).(func(error))
	if response.StatusCode == http.StatusOK && r.URL.Query().Has("watch") {
		body.kind, body.limit, body.split = "watch event", maxEvent, new(jsonEvents).next
		if strings.HasPrefix(response.Header.Get("Content-Type"), "application/vnd.kubernetes.protobuf") {
			body.split = new(frames).next
		}
	}
	response.Body = body
	return response, nil
}

// budget is the number of bytes of all responses in progress.
type budget struct {
	mu   sync.Mutex
	used int64
}

// share is the part of one response in a budget.
type share struct {
	budget *budget
	taken  int64
	closed bool
}

func (s *share) take(n int64) error {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	if s.closed {
		return nil // the caller discards the data
	}
	s.taken += n
	s.budget.used += n
	if s.budget.used > maxTogether {
		return fmt.Errorf("responses in progress exceed the limit of %d bytes together", int64(maxTogether))
	}
	return nil
}

func (s *share) release(closed bool) {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	s.budget.used -= s.taken
	s.taken, s.closed = 0, s.closed || closed
}

// boundedBody is a sequence of parts: a response, or the events of a watch.
type boundedBody struct {
	io.ReadCloser
	share share
	kind  string
	limit int64
	size  int64 // of the current part so far
	// split returns the number of bytes of p that belong to the current part, whether the part ends
	// there, and a lower bound of its further bytes.
	split  func(p []byte) (n int, ended bool, more int64)
	report func(error) // of onExceeded; optional
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.limit+1 {
		p = p[:b.limit+1] // one more byte shows that the part is too large
	}
	n, err := b.ReadCloser.Read(p)
	if exceeded := b.count(p[:n]); exceeded != nil {
		if b.report != nil {
			b.report(exceeded)
		}
		return 0, exceeded
	}
	return n, err
}

// count returns an error for the first data above a limit.
func (b *boundedBody) count(p []byte) error {
	for len(p) > 0 {
		n, ended, more := b.split(p)
		p = p[n:]
		before := max(b.size, uncounted)
		b.size += int64(n)
		if b.size+more > b.limit {
			return fmt.Errorf("%s exceeds the limit of %d bytes", b.kind, b.limit)
		}
		if ended {
			if before > uncounted {
				b.share.release(false)
			}
			b.size = 0
		} else if b.size > before {
			if err := b.share.take(b.size - before); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *boundedBody) Close() error {
	b.share.release(true)
	return b.ReadCloser.Close()
}

func whole(p []byte) (n int, ended bool, more int64) { return len(p), false, 0 }

// jsonEvents splits a sequence of JSON objects.
type jsonEvents struct {
	depth            int // of brackets
	inText, inEscape bool
}

func (e *jsonEvents) next(p []byte) (n int, ended bool, more int64) {
	for i, c := range p {
		switch {
		case e.inEscape:
			e.inEscape = false
		case e.inText:
			e.inEscape, e.inText = c == '\\', c != '"'
		case c == '"':
			e.inText = true
		case c == '{' || c == '[':
			e.depth++
		case c == '}' || c == ']':
			if e.depth--; e.depth <= 0 {
				e.depth = 0
				return i + 1, true, 0
			}
		}
	}
	return len(p), false, 0
}

// frames splits a sequence of messages in protobuf, each after its length in four bytes.
type frames struct {
	header []byte
	left   int64 // bytes of the message
}

func (f *frames) next(p []byte) (n int, ended bool, more int64) {
	if len(f.header) < 4 {
		n = min(4-len(f.header), len(p))
		if f.header = append(f.header, p[:n]...); len(f.header) < 4 {
			return n, false, 0
		}
		f.left = int64(binary.BigEndian.Uint32(f.header))
	}
	part := min(f.left, int64(len(p)-n))
	if f.left -= part; f.left == 0 {
		f.header = f.header[:0]
		return n + int(part), true, 0
	}
	return n + int(part), false, f.left
}
