package pods

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
)

// waitsFor returns, for each running sidecar, the names that must stop first: the running regular
// containers and the next running sidecar after it, which waits for later ones itself. Only
// sidecars wait, and only for running containers. It is pure.
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

// stopOrder orders the stops of containers in a kill.
type stopOrder struct {
	waits map[string][]string
	names map[string]*stopSlot
}

// stopSlot is the progress of one container's stop, for the containers that wait for it.
type stopSlot struct {
	mu sync.Mutex
	// left is the number of instances that have not stopped.
	left int
	// stopped is closed when left is 0.
	stopped chan struct{}
	// away is closed when a stop fails because the runtime is unavailable. err has the reason.
	away chan struct{}
	err  error
}

func newStopOrder(pod *v1.Pod, kills []actions.ContainerKill) *stopOrder {
	t := &stopOrder{names: map[string]*stopSlot{}}
	running := map[string]bool{}
	for _, c := range kills {
		running[c.Name] = true
		if t.names[c.Name] == nil {
			t.names[c.Name] = &stopSlot{stopped: make(chan struct{}), away: make(chan struct{})}
		}
		t.names[c.Name].left++
	}
	t.waits = waitsFor(pod, running)
	return t
}

// before returns the names that a container waits for.
func (t *stopOrder) before(name string) []string {
	if t == nil {
		return nil
	}
	return t.waits[name]
}

// wait blocks until the container may stop, or until limit has passed. It returns an error if
// ctx is done, or if the runtime is unavailable: a later attempt then keeps the order.
func (t *stopOrder) wait(ctx context.Context, name string, limit time.Duration) error {
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

// done records the outcome of an instance's stop. After a failed stop the next container does not
// stop: the failed one may still run, so the sidecars that serve it continue until their own grace
// period is over.
func (t *stopOrder) done(name string, err error) {
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
