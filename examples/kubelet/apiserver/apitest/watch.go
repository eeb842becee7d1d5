package apitest

import (
	"context"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

type watcher struct {
	server   *Server
	call     Call
	selector map[string]string
	seen     int64 // the version up to which all events were sent
	send     func(kind watch.EventType, obj runtime.Object) error
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, c Call) {
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	defer s.watching(stop)()
	if seconds, err := strconv.Atoi(first(c.Query["timeoutSeconds"])); err == nil && seconds > 0 {
		timer := time.AfterFunc(time.Duration(seconds)*time.Second, stop)
		defer timer.Stop()
	}
	info := s.wire.accepted(r)
	w.Header().Set("Content-Type", info.MediaType+map[bool]string{true: ";stream=watch"}[info.MediaType == protobuf])
	w.WriteHeader(http.StatusOK)
	flusher, ok := w.(http.Flusher)
	if !ok {
		return
	}
	flusher.Flush()
	frames := info.StreamSerializer.Framer.NewFrameWriter(w)
	x := &watcher{server: s, call: c, selector: parseSelector(first(c.Query["fieldSelector"]))}
	x.send = func(kind watch.EventType, obj runtime.Object) error {
		version := c.gvr.GroupVersion()
		if kind == watch.Error {
			version = schema.GroupVersion{Version: "v1"}
		}
		data, err := s.wire.event(info, string(kind), obj, version, s.unknownFields.Load())
		if err != nil {
			return err
		}
		if _, err = frames.Write(data); err == nil {
			flusher.Flush()
		}
		return err
	}
	x.run(ctx)
}

func (w *watcher) run(ctx context.Context) {
	if !w.begin() {
		return
	}
	for {
		batch, changed, ok := w.news()
		if !ok {
			_ = w.send(watch.Error, expired()) // the watch ends even if this fails
			return
		}
		for _, c := range batch {
			if kind, obj := w.seenAs(c); obj != nil && w.send(kind, obj) != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

func expired() runtime.Object {
	status := apierrors.NewResourceExpired("too old resource version").Status()
	return &status
}

// begin sends the existing objects to a watch without a resource version.
func (w *watcher) begin() bool {
	since, _ := strconv.ParseInt(first(w.call.Query["resourceVersion"]), 10, 64)
	w.seen = since
	if since != 0 {
		return true
	}
	w.server.mu.Lock()
	present := w.server.present(w.call)
	w.seen = w.server.table.version
	w.server.mu.Unlock()
	for _, obj := range present {
		if w.send(watch.Added, obj) != nil {
			return false
		}
	}
	return true
}

// news returns the changes since the last call, and a channel that is closed at the next change. ok
// is false if changes were dropped from the history.
func (w *watcher) news() (batch []change, changed <-chan struct{}, ok bool) {
	s := w.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.seen < s.table.forgotten {
		return nil, nil, false
	}
	for _, c := range s.table.history {
		if c.version > w.seen && w.call.about(c.key) {
			batch = append(batch, c)
		}
	}
	w.seen = s.table.version
	return batch, s.table.changed, true
}

// seenAs returns the event for a watch whose selector may select the object before or after the
// change only.
func (w *watcher) seenAs(c change) (watch.EventType, runtime.Object) {
	was, is := c.was != nil && matches(c.was, w.selector), c.now != nil && matches(c.now, w.selector)
	switch {
	case was && is:
		return watch.Modified, c.now
	case is:
		return watch.Added, c.now
	case was:
		last := c.was.DeepCopyObject().(Object)
		last.SetResourceVersion(strconv.FormatInt(c.version, 10))
		return watch.Deleted, last
	}
	return "", nil
}
