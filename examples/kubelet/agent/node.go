package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/images/gc"
	"github.com/podwright/podwright/cri/images/records"
	"github.com/podwright/podwright/cri/logs"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/status/writer"
	"github.com/podwright/podwright/syncloop"
)

// node is everything that needs a connection to the runtime, in the order in which
// newNode builds it.
type node struct {
	ground

	health  health
	users   *pods.UserNamespaces
	records *records.Store
	images  *images.Manager
	pods    *pods.Manager
	garbage *garbage.Collector
	rotator *logs.Rotator
	// runtimePods are the pods in the runtime, as the observer sees them.
	runtimePods *observe.Observer
	observer    *observer

	checkpoints *checkpoint.Keeper
	statuses    *writer.Writer
	write       func(context.Context) error // statuses.Run
	probes      *probe.Manager
	sources

	syncer  *syncer
	workers *podworkers.Workers
	janitor *janitor
	imageGC *gc.Manager
	handler *syncloop.DefaultHandler
	loop    *syncloop.Loop
}

// run runs all parts until ctx ends. Whoever acts is stopped before whoever is
// asked, so that no worker finds the observer gone.
func (n *node) run(ctx context.Context) error {
	ctx, stopActing := context.WithCancel(ctx)
	defer stopActing()
	below, stopObserving := context.WithCancel(context.WithoutCancel(ctx))
	defer stopObserving()

	var observing, acting parts
	observing.start(below, stopActing, n.observer.Run, n.health.Run, n.write)
	acting.start(ctx, stopActing, n.workers.Run, n.loop.Run, n.probes.Run, n.janitor.Run, n.rotator.Run, n.imageGC.Run)
	err := acting.wait()
	stopObserving()
	err = errors.Join(err, observing.wait())
	if names := n.pods.Overdue(); len(names) > 0 {
		err = errors.Join(err, fmt.Errorf("agent: preStop handlers that ignore the end of their context: %v", names))
	}
	return err
}

// parts are goroutines that run as long as all of them do.
type parts struct {
	wg   sync.WaitGroup
	mu   sync.Mutex
	errs []error
}

func (p *parts) start(ctx context.Context, stop func(), runs ...func(context.Context) error) {
	for _, run := range runs {
		p.wg.Go(func() {
			defer stop()
			err := run(ctx)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.errs = append(p.errs, err)
		})
	}
}

func (p *parts) wait() error {
	p.wg.Wait()
	return errors.Join(p.errs...)
}

// observed is what an event of the observer means to the loop: a hint.
func observed(e pleg.Event) syncloop.Event {
	kind := syncloop.PodDirty
	switch e.Type {
	case pleg.Died:
		kind = syncloop.ContainerDied
	case pleg.Removed:
		kind = syncloop.ContainerRemoved
	}
	return syncloop.Event{Kind: kind, UID: e.UID}
}

// tidy has housekeeping done soon.
func (g *ground) tidy() { g.inbox.Emit(syncloop.Event{Kind: syncloop.Housekeeping}) }

// transition logs where a pod's life turns. When one ends, housekeeping forgets it,
// and what waits for its UID starts.
func (g *ground) transition(t podworkers.Transition) {
	if t.To == podworkers.StateFinished {
		g.tidy()
	}
	g.cfg.Logger.Debug("pod worker", "pod", t.Namespace+"/"+t.Name, "uid", t.UID, "from", t.From, "to", t.To)
}

// health is what the runtime says of itself.
type health struct{ *cri.HealthMonitor }

// handlerFeatures are what the handler of a pod can do; the default one is the only
// one so far.
func (h health) handlerFeatures(*v1.Pod) request.HandlerFeatures {
	handler, _ := h.Health().Handler("")
	return request.HandlerFeatures{RecursiveReadOnlyMounts: handler.RecursiveReadOnlyMounts, UserNamespaces: handler.UserNamespaces}
}

func (h health) networkReady() error {
	if c := h.Health().NetworkReady; !c.Ready() {
		return fmt.Errorf("network of the container runtime is %s", c)
	}
	return nil
}

// runtimeHealth is why nothing can be handled now, nil when it can.
func (n *node) runtimeHealth() error {
	if c := n.health.Health().RuntimeReady; !c.Ready() {
		return fmt.Errorf("container runtime is %s", c)
	}
	return n.observer.Healthy()
}

// started returns when a pod began, nil if it has not.
func (n *node) started(pod *v1.Pod) *metav1.Time {
	if s := n.statuses.Get(pod.UID); s != nil {
		return s.StartTime
	}
	return nil
}

// stopped tells from memory whether nothing of a pod runs.
func (n *node) stopped(uid types.UID) bool {
	observed, err := n.observer.Get(uid)
	return err == nil && !observed.ObservedAt.IsZero() && observed.Stopped()
}
