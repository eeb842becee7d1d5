package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher notes what a watch of all pods of the namespace shows, and when.
type watcher struct {
	stop func()

	mu      sync.Mutex
	pods    map[string][]sight // by name, in the order in which they came
	changed chan struct{}
	err     error
}

// sight is a pod at a moment, nil once it is gone.
type sight struct {
	at  time.Time
	pod *v1.Pod
}

func (c *cluster) watch(ctx context.Context) (*watcher, error) {
	ctx, cancel := context.WithCancel(ctx)
	list, err := c.admin.Pods(benchNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		cancel()
		return nil, err
	}
	events, err := c.admin.Pods(benchNamespace).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		cancel()
		return nil, err
	}
	w := &watcher{pods: map[string][]sight{}, changed: make(chan struct{})}
	done := make(chan struct{})
	w.stop = func() { events.Stop(); cancel(); <-done }
	go func() {
		defer close(done)
		for e := range events.ResultChan() {
			w.take(e)
		}
		w.end(errors.New("the watch has ended"))
	}()
	return w, nil
}

func (w *watcher) take(e watch.Event) {
	now := time.Now()
	pod, ok := e.Object.(*v1.Pod)
	if !ok {
		w.end(fmt.Errorf("%v", e.Object))
		return
	}
	name := pod.Name
	if e.Type == watch.Deleted {
		pod = nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[name] = append(w.pods[name], sight{now, pod})
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *watcher) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	close(w.changed)
	w.changed = make(chan struct{})
}

// await returns when a pod was seen first as it should be; nil is one that is gone.
func (w *watcher) await(ctx context.Context, name string, is func(*v1.Pod) bool) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		w.mu.Lock()
		sights, changed, err := w.pods[name], w.changed, w.err
		w.mu.Unlock()
		for _, s := range sights {
			if is(s.pod) {
				return s.at, nil
			}
		}
		if err != nil {
			return time.Time{}, err
		}
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("pod %s: %w", name, ctx.Err())
		case <-changed:
		}
	}
}
