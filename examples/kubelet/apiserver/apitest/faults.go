package apitest

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Fault is what shall happen to a call instead of an answer, or before it. The zero value
// is none.
type Fault struct {
	// Delay passes before anything else.
	Delay time.Duration
	// Status is answered, and nothing done; 0 means the true answer.
	Status int
	// RetryAfter goes with Status, in seconds.
	RetryAfter int
	// Cut does what is asked for and closes the connection instead of answering.
	Cut bool
}

// faults is what goes wrong, and what was seen.
type faults struct {
	unknownFields atomic.Bool

	faultMu sync.Mutex
	fault   func(Call) Fault
	calls   []Call
	watches map[int]context.CancelFunc
	next    int
}

// SetFault has f asked at each call; nil ends that. It is called concurrently.
func (f *faults) SetFault(fault func(Call) Fault) {
	f.faultMu.Lock()
	defer f.faultMu.Unlock()
	f.fault = fault
}

// SendUnknownFields has each object sent with a field that nobody knows, as one of a newer
// server may have.
func (f *faults) SendUnknownFields(on bool) { f.unknownFields.Store(on) }

// Calls are all requests so far, in the order in which they came.
func (f *faults) Calls() []Call {
	f.faultMu.Lock()
	defer f.faultMu.Unlock()
	return append([]Call(nil), f.calls...)
}

// CountCalls counts the requests so far whose verb and resource are these.
func (f *faults) CountCalls(verb, resource string) (n int) {
	for _, c := range f.Calls() {
		if c.Verb == verb && c.Resource == resource {
			n++
		}
	}
	return n
}

// Watches is the number of watches that are open.
func (f *faults) Watches() int {
	f.faultMu.Lock()
	defer f.faultMu.Unlock()
	return len(f.watches)
}

// CloseWatches ends all watches, as a server does from time to time.
func (f *faults) CloseWatches() {
	f.faultMu.Lock()
	defer f.faultMu.Unlock()
	for _, stop := range f.watches {
		stop()
	}
}

// watching notes a watch until what it returns is called.
func (f *faults) watching(stop context.CancelFunc) (done func()) {
	f.faultMu.Lock()
	defer f.faultMu.Unlock()
	if f.watches == nil {
		f.watches = map[int]context.CancelFunc{}
	}
	f.next++
	n := f.next
	f.watches[n] = stop
	return func() {
		f.faultMu.Lock()
		defer f.faultMu.Unlock()
		delete(f.watches, n)
	}
}

// faulty does what a fault demands, and tells whether that was all.
func (s *Server) faulty(w http.ResponseWriter, r *http.Request, c Call) bool {
	s.faultMu.Lock()
	s.calls = append(s.calls, c)
	ask := s.fault
	s.faultMu.Unlock()
	if ask == nil {
		return false
	}
	f := ask(c)
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return true
		case <-s.closing:
			return true
		}
	}
	if f.Cut {
		if c.Verb != "watch" {
			_, _ = s.answer(c, s.kinds[c.gvr]) // nobody hears of it
		}
		panic(http.ErrAbortHandler)
	}
	if f.Status != 0 {
		s.fail(w, r, apierrors.NewGenericServerResponse(f.Status, c.Verb, c.gvr.GroupResource(), c.Name, "as the test demands", f.RetryAfter, true))
	}
	return f.Status != 0
}

// Forget drops the history: a watch that ends cannot go on where it was (410 Gone).
func (s *Server) Forget() {
	s.mu.Lock()
	s.table.version++
	s.table.forgotten, s.table.history = s.table.version, nil
	s.mu.Unlock()
}
