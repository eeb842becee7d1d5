package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/images/gc"
	"github.com/podwright/podwright/cri/logs"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/hooks"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

// node is everything that needs a connection to the runtime, wired together.
type node struct {
	cfg      Config
	folders  folders
	statuses *status.Manager
	memory   *memory
	event    recorder

	health   *cri.HealthMonitor
	images   *images.Manager
	imageGC  *gc.Manager
	users    *pods.UserNamespaces
	pods     *pods.Manager
	probes   *probe.Manager
	rotator  *logs.Rotator
	pleg     *pleg.PLEG
	observer *observer
	workers  *podworkers.Workers
	merger   *podsource.Merger
	files    *podsource.FileSource // nil without a manifest path
	web      *podsource.HTTPSource // nil without a manifest URL
	handler  *syncloop.DefaultHandler
	loop     *syncloop.Loop
	syncer   *syncer
	janitor  *janitor
}

// newNode builds the parts from the runtime upwards. Each constructor takes what
// stands below it; the two places where something above must be told (events
// of the observer, due pods) are callbacks that emit into the loop.
func newNode(ctx context.Context, cfg Config, f folders, conn *Connection) (*node, error) {
	n := &node{cfg: cfg, folders: f, event: logEvents(cfg.Logger)}
	if err := n.buildUsers(ctx); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	for _, build := range []func(*Connection) error{n.buildStatuses, n.buildImages, n.buildRuntime, n.buildProbes, n.buildObserver, n.buildWorkers, n.buildSources, n.buildLoop} {
		if err := build(conn); err != nil {
			return nil, fmt.Errorf("agent: %w", err)
		}
	}
	return n, nil
}

func (n *node) buildStatuses(*Connection) (err error) {
	n.memory, err = newMemory(n.cfg.Logger, n.folders)
	if err != nil {
		return err
	}
	n.statuses, err = status.NewManager(status.ManagerConfig{
		Changed:         n.memory.changed,
		ShutdownTimeout: n.cfg.ShutdownTimeout,
		Logger:          n.cfg.Logger,
	})
	n.memory.status = n.statuses.Get
	n.memory.probes = func(uid types.UID) []probe.Stored { return n.probes.Results(uid) }
	return err
}

func (n *node) buildRuntime(conn *Connection) (err error) {
	n.health, err = cri.NewHealthMonitor(cri.HealthConfig{Runtime: conn.Runtime, Logger: n.cfg.Logger})
	if err != nil {
		return err
	}
	runner, err := hooks.New(hooks.Config{
		Exec:   conn.Runtime,
		PodIPs: func(ctx context.Context, pod *v1.Pod) ([]string, error) { return n.pods.PodIPs(ctx, pod) },
		Event:  n.event,
	})
	if err != nil {
		return err
	}
	actuated, err := pods.NewActuatedFolder(pods.ActuatedFolderConfig{Dir: filepath.Join(n.cfg.RootDir, "actuated_resources"), Logger: n.cfg.Logger})
	if err != nil {
		return err
	}
	n.pods, err = pods.New(pods.Config{
		Runtime:           conn.Runtime,
		Images:            n.images,
		RuntimeName:       conn.Name,
		LogRoot:           n.cfg.PodLogsDir,
		LinkDir:           n.cfg.ContainerLogsDir,
		PodDir:            n.folders.pod,
		MaxCrashLoopDelay: n.cfg.MaxCrashLoopBackoff,
		Inputs:            request.Inputs{Volumes: request.HostPaths{}, UserNamespace: n.users.Of, HandlerFeatures: n.handlerFeatures, NodeIPs: nodeIPs},
		Hooks:             runner,
		Actuated:          actuated,
		Node:              describeNode(n.cfg),
		DNS:               n.cfg.DNS,
		Event:             n.event,
		Logger:            n.cfg.Logger,
	})
	if err != nil {
		return err
	}
	n.rotator, err = logs.NewRotator(logs.RotatorConfig{
		Runtime:  conn.Runtime,
		MaxSize:  n.cfg.LogMaxSize,
		MaxFiles: n.cfg.LogMaxFiles,
		Workers:  n.cfg.LogWorkers,
		Period:   n.cfg.LogPeriod,
		Logger:   n.cfg.Logger,
	})
	return err
}

func (n *node) buildObserver(*Connection) (err error) {
	n.observer = newObserver()
	n.pleg, err = pleg.New(pleg.Config{
		Runtime:         hinted{observable: n.pods, hold: n.observer.hold},
		OnEvent:         n.observed,
		AdaptiveRelist:  n.cfg.AdaptiveRelist,
		ShutdownTimeout: n.cfg.ShutdownTimeout,
		Logger:          n.cfg.Logger,
	})
	n.observer.PLEG = n.pleg
	return err
}

func (n *node) buildWorkers(*Connection) (err error) {
	turns := newTurns()
	n.syncer = &syncer{
		log:          n.cfg.Logger,
		event:        n.event,
		runtime:      n.pods,
		observer:     n.observer,
		statuses:     n.statuses,
		probes:       n.probes,
		memory:       n.memory,
		folders:      n.folders,
		networkReady: n.networkReady,
		hostIPs:      nodeIPs,
		desired:      n.desired,
		tidy:         func() { n.loop.Emit(syncloop.Event{Kind: syncloop.Housekeeping}) },
		turns:        turns,
		kept:         newUIDSet(),
		users:        n.users,
		explanations: newExplanations(),
	}
	n.janitor = &janitor{
		log:          n.cfg.Logger,
		runtime:      n.pods,
		observer:     n.observer,
		folders:      n.folders,
		gone:         n.gone,
		unneeded:     func(uid types.UID) bool { return n.workers.State(uid).ContainersMayBeRemoved() },
		sourcesReady: func() bool { return n.merger.Ready() },
		policy:       n.cfg.DeadContainers,
		remove:       n.syncer.remove,
		turns:        turns,
		kept:         n.syncer.kept,
		woken:        make(chan struct{}, 1),
		prunable:     map[types.UID]bool{},
		postponed:    map[types.UID]bool{},
	}
	n.workers, err = podworkers.New(podworkers.Config{
		Syncer:             n.syncer,
		ResyncInterval:     n.cfg.SyncFrequency,
		Resync:             func(uid types.UID) { n.loop.Emit(syncloop.Event{Kind: syncloop.SyncDue, UID: uid}) },
		TerminalPodStopped: n.stopped,
		OnTransition:       n.transition,
		ShutdownTimeout:    n.cfg.ShutdownTimeout,
		Event:              n.event,
		Logger:             n.cfg.Logger,
	})
	return err
}

func (n *node) buildLoop(*Connection) (err error) {
	n.handler, err = n.newHandler()
	if err != nil {
		return err
	}
	sources := map[string]syncloop.EventSource{
		"deadline": n.handler.ActiveDeadlines(n.started),
	}
	if n.files != nil {
		sources[fileSource] = n.files
	}
	if n.web != nil {
		sources[httpSource] = n.web
	}
	n.loop, err = syncloop.New(syncloop.Config{
		Handler:         n.handler,
		Pods:            n.merger,
		Sources:         sources,
		Health:          n.runtimeHealth,
		StallLimit:      max(5*time.Minute, 2*n.cfg.SyncFrequency),
		ShutdownTimeout: n.cfg.ShutdownTimeout,
		Logger:          n.cfg.Logger,
	})
	return err
}

// run runs all parts until ctx ends. Whoever acts is stopped before whoever is
// asked, so that no worker finds the observer gone.
func (n *node) run(ctx context.Context) error {
	ctx, stopActing := context.WithCancel(ctx)
	defer stopActing()
	below, stopObserving := context.WithCancel(context.WithoutCancel(ctx))
	defer stopObserving()

	var observing, acting parts
	observing.start(below, stopActing, n.pleg.Run, n.health.Run, n.statuses.Run, n.memory.Run)
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

// observed passes the observer's events on to the loop, as hints.
func (n *node) observed(e pleg.Event) {
	kind := syncloop.PodDirty
	switch e.Type {
	case pleg.Died:
		kind = syncloop.ContainerDied
	case pleg.Removed:
		kind = syncloop.ContainerRemoved
	}
	n.loop.Emit(syncloop.Event{Kind: kind, UID: e.UID})
}

// transition logs where a pod's life turns. When one ends, housekeeping forgets it,
// and what waits for its UID starts.
func (n *node) transition(t podworkers.Transition) {
	if t.To == podworkers.StateFinished {
		n.loop.Emit(syncloop.Event{Kind: syncloop.Housekeeping})
	}
	n.cfg.Logger.Debug("pod worker", "pod", t.Namespace+"/"+t.Name, "uid", t.UID, "from", t.From, "to", t.To)
}

// runtimeHealth is why nothing can be handled now, nil when it can.
func (n *node) runtimeHealth() error {
	if c := n.health.Health().RuntimeReady; !c.Ready() {
		return fmt.Errorf("container runtime is %s", c)
	}
	return n.pleg.Healthy()
}

// handlerFeatures are what the handler of a pod can do; the default one is the only
// one so far.
func (n *node) handlerFeatures(*v1.Pod) request.HandlerFeatures {
	h, _ := n.health.Health().Handler("")
	return request.HandlerFeatures{RecursiveReadOnlyMounts: h.RecursiveReadOnlyMounts, UserNamespaces: h.UserNamespaces}
}

func (n *node) networkReady() error {
	if c := n.health.Health().NetworkReady; !c.Ready() {
		return fmt.Errorf("network of the container runtime is %s", c)
	}
	return nil
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
	observed, err := n.pleg.Get(uid)
	return err == nil && !observed.ObservedAt.IsZero() && observed.Stopped()
}
