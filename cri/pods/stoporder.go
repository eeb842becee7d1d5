package pods

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
)

// waitsFor tells for each sidecar that runs which other names must have stopped
// before it is its turn: the regular containers and, of the sidecars after it, the
// next that runs; what comes later still is that one's to wait for. What does not
// run is waited for by nobody, and nobody but sidecars waits. It is pure.
func waitsFor(pod *v1.Pod, running map[string]bool) map[string][]string {
	waits := map[string][]string{}
	if pod == nil {
		return waits
	}
	var regular, next []string
	for i := range pod.Spec.Containers {
		if name := pod.Spec.Containers[i].Name; running[name] {
			regular = append(regular, name)
		}
	}
	for i := len(pod.Spec.InitContainers) - 1; i >= 0; i-- {
		c := &pod.Spec.InitContainers[i]
		if !podfacts.IsSidecar(c) || !running[c.Name] {
			continue
		}
		if before := append(append([]string{}, regular...), next...); len(before) > 0 {
			waits[c.Name] = before
		}
		next = []string{c.Name}
	}
	return waits
}

// turns makes containers wait for each other while a pod is killed.
type turns struct {
	waits map[string][]string
	names map[string]*turn
}

// turn is what others know of a container that is being stopped.
type turn struct {
	mu sync.Mutex
	// left counts the instances that have not stopped.
	left int
	// stopped is closed once none is left.
	stopped chan struct{}
	// away is closed once it is known that the runtime cannot be reached to stop
	// it; err tells why.
	away chan struct{}
	err  error
}

func newTurns(pod *v1.Pod, kills []ContainerKill) *turns {
	t := &turns{names: map[string]*turn{}}
	running := map[string]bool{}
	for _, c := range kills {
		running[c.Name] = true
		if t.names[c.Name] == nil {
			t.names[c.Name] = &turn{stopped: make(chan struct{}), away: make(chan struct{})}
		}
		t.names[c.Name].left++
	}
	t.waits = waitsFor(pod, running)
	return t
}

// before are the names that a container waits for.
func (t *turns) before(name string) []string {
	if t == nil {
		return nil
	}
	return t.waits[name]
}

// wait returns when it is the container's turn, or no later than after limit. An
// error says that it was called off, or that it would be in vain: the runtime is
// away, and another try keeps the order.
func (t *turns) wait(ctx context.Context, name string, limit time.Duration) error {
	timer := time.NewTimer(max(limit, 0))
	defer timer.Stop()
	for _, other := range t.before(name) {
		o := t.names[other]
		select {
		case <-o.stopped:
		case <-o.away:
			return fmt.Errorf("waiting for container %s to stop: %w", other, o.err)
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return run.EndOf(ctx)
		}
	}
	return nil
}

// done tells what has become of the stop of an instance. One that has failed does
// not give its turn away: the container may still run, and those that serve it
// do so until their own time is over.
func (t *turns) done(name string, err error) {
	if t == nil {
		return
	}
	o := t.names[name]
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
		if o.left--; o.left == 0 {
			close(o.stopped)
		}
	case o.err == nil && status.Code(err) == codes.Unavailable:
		o.err = err
		close(o.away)
	}
}
