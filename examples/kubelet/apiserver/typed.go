package apiserver

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// typedWatch replaces invalid events by errors. A reflector would skip the events, and the change
// would be lost; an error ends the watch, and the objects are listed again.
type typedWatch struct {
	watch.Interface
	events  chan watch.Event
	stopped chan struct{}
	once    sync.Once
}

// typed returns a watch whose events pass check. Its goroutine ends with w, or with Stop.
func typed(w watch.Interface, check func(watch.Event) error) *typedWatch {
	t := &typedWatch{Interface: w, events: make(chan watch.Event), stopped: make(chan struct{})}
	go func() {
		defer close(t.events)
		for e := range w.ResultChan() {
			if err := check(e); err != nil {
				e = watch.Event{Type: watch.Error, Object: &metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}}
			}
			select {
			case t.events <- e:
			case <-t.stopped:
				return
			}
		}
	}()
	return t
}

// ResultChan implements watch.Interface.
func (t *typedWatch) ResultChan() <-chan watch.Event { return t.events }

// Stop implements watch.Interface.
func (t *typedWatch) Stop() {
	t.once.Do(func() { close(t.stopped) })
	t.Interface.Stop()
}
