package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher records the states of all pods of the namespace, with the times at which a watch showed
// them.
type watcher struct {
	stop    func()
	version string // of the last event

	mu      sync.Mutex
	pods    map[string][]observation // by name, in order of arrival
	changed chan struct{}
	err     error
}

// observation is a pod's state at one time. pod is nil after its deletion.
type observation struct {
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
	w := &watcher{pods: map[string][]observation{}, changed: make(chan struct{}), version: list.ResourceVersion}
	done := make(chan struct{})
	w.stop = func() { cancel(); <-done }
	go func() {
		defer close(done)
		for ctx.Err() == nil { // the server ends the watch of a slow client
			if err := w.follow(ctx, c); err != nil {
				w.end(err)
				return
			}
		}
	}()
	return w, nil
}

// follow records events until the server ends the watch.
func (w *watcher) follow(ctx context.Context, c *cluster) error {
	events, err := c.admin.Pods(benchNamespace).Watch(ctx, metav1.ListOptions{ResourceVersion: w.version})
	if err != nil {
		return err
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		pod, ok := e.Object.(*v1.Pod)
		if !ok {
			return fmt.Errorf("%v", e.Object)
		}
		w.version = pod.ResourceVersion
		w.take(e.Type, pod)
	}
	return nil
}

func (w *watcher) take(kind watch.EventType, pod *v1.Pod) {
	now, name := time.Now(), pod.Name
	if kind == watch.Deleted {
		pod = nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[name] = append(w.pods[name], observation{now, pod})
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

// await returns the time at which a pod first satisfied is. is receives nil for a deleted pod.
// await fails after waitTimeout.
func (w *watcher) await(ctx context.Context, name string, is func(*v1.Pod) bool) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	for {
		w.mu.Lock()
		observations, changed, err := w.pods[name], w.changed, w.err
		w.mu.Unlock()
		for _, s := range observations {
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
