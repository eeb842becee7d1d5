package apitest

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Fault is an error or a delay of one call. The zero value is no fault.
type Fault struct {
	// Delay is the time before the call is handled.
	Delay time.Duration
	// Status is the status code of an error response; the call is not carried out. 0 means no
	// error.
	Status int
	// RetryAfter is the Retry-After header sent with Status, in seconds.
	RetryAfter int
	// Body is a JSON document that is sent with status 200 instead of carrying out the call. The
	// response to a watch stays open after it.
	Body string
	// Cut carries out the call and then closes the connection without a response.
	Cut bool
}

type faults struct {
	unknownFields atomic.Bool

	faultMu sync.Mutex
	fault   func(Call) Fault
	calls   []Call
	watches map[int]context.CancelFunc
	next    int
}

// SetFault sets the function that returns the fault of each call. nil removes it. It is called
// concurrently.
func (f *faults) SetFault(fault func(Call) Fault) {
	f.faultMu.Lock()
	defer f.faultMu.Unlock()
	f.fault = fault
}

// SendUnknownFields adds an unknown field to each sent object, as a newer server may do.
func (f *faults) SendUnknownFields(on bool) { f.unknownFields.Store(on) }

// Calls returns all requests so far, in the order of their arrival.
func (f *faults) Calls() []Call {
	f.faultMu.Lock()
	defer f.faultMu.Unlock()
	return append([]Call(nil), f.calls...)
}

// CountCalls returns the number of requests so far with this verb and resource.
func (f *faults) CountCalls(verb, resource string) (n int) {
	for _, c := range f.Calls() {
		if c.Verb == verb && c.Resource == resource {
			n++
		}
	}
	return n
}

// Watches returns the number of open watches.
func (f *faults) Watches() int {
	f.faultMu.Lock()
	defer f.faultMu.Unlock()
	return len(f.watches)
}

// CloseWatches ends all watches, as a real server does from time to time.
func (f *faults) CloseWatches() {
	f.faultMu.Lock()
	defer f.faultMu.Unlock()
	for _, stop := range f.watches {
		stop()
	}
}

// watching registers a watch until the returned function is called.
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

// faulty applies the fault of a call, and reports whether the call is finished.
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
			_, _ = s.answer(c, s.kinds[c.gvr]) // the response is not sent
		}
		panic(http.ErrAbortHandler)
	}
	if f.Body != "" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, f.Body)
		if c.Verb == "watch" {
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-s.closing:
			}
		}
		return true
	}
	if f.Status != 0 {
		s.fail(w, r, apierrors.NewGenericServerResponse(f.Status, c.Verb, c.gvr.GroupResource(), c.Name, "as the test demands", f.RetryAfter, true))
	}
	return f.Status != 0
}

// Forget drops the history, so that an ended watch cannot resume (410 Gone).
func (s *Server) Forget() {
	s.mu.Lock()
	s.table.version++
	s.table.forgotten, s.table.history = s.table.version, nil
	s.mu.Unlock()
}
