package fake

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/podwright/podwright/cri"
)

var (
	_ cri.RuntimeService = (*Runtime)(nil)
	_ cri.ImageService   = (*Runtime)(nil)
)

// Runtime is a container runtime in memory. It is ready for use when New returns. Use it in process
// through its methods, or over gRPC through Serve or Register. Close ends it. It is safe for
// concurrent use.
type Runtime struct {
	cfg Config
	clock
	images *imageStore
	events *broadcaster
	logs   logGate
	conns  *connections

	// starts counts programs that are being started, so that Close waits for all.
	starts starts

	// mu guards the state below. Programs and hooks are never called under it.
	mu         sync.RWMutex
	store      store
	addresses  addressPool
	conditions [2]condition
	closed     bool
	down       bool               // by Stop
	life       *life              // of the runtime's process
	execs      map[*task]struct{} // commands in containers, also in removed ones
	abandoned  map[*task]string   // still running programs of ended tasks
}

// New returns a running runtime. It fails if a field of cfg is invalid.
func New(cfg Config) (*Runtime, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	rt := &Runtime{
		cfg:        cfg,
		store:      newStore(),
		addresses:  newAddressPool(cfg.FixedIPs),
		conditions: readyConditions(),
		execs:      map[*task]struct{}{},
		abandoned:  map[*task]string{},
		events:     newBroadcaster(),
		life:       newLife(),
		conns:      newConnections(),
		images:     newImageStore(cfg.Images, cfg.AnyImage),
	}
	rt.skew.Store(int64(cfg.ClockSkew))
	return rt, nil
}

// Close kills every container, waits for their programs and refuses further calls with code
// Unavailable. The error names programs and Resolvers that do not return within 10 seconds. The
// state can no longer be read. Close may be called again.
func (rt *Runtime) Close() error {
	rt.mu.Lock()
	rt.closed = true
	rt.life.end(closedError())
	rt.mu.Unlock()
	rt.logs.release()
	// Tasks end within killTimeout, so this has no error.
	_ = rt.killPrograms(programRoot{})
	return rt.abandonedError()
}

// tasks returns all running tasks. The caller holds rt.mu.
func (rt *Runtime) tasks() []*task {
	var tasks []*task
	for c := range rt.store.all.all() {
		if c.task != nil {
			tasks = append(tasks, c.task)
		}
	}
	for t := range rt.execs {
		tasks = append(tasks, t)
	}
	return tasks
}

func (rt *Runtime) abandonedError() error {
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	programs := slices.AppendSeq(rt.starts.names(), maps.Values(rt.abandoned))
	if len(programs) == 0 {
		return nil
	}
	slices.Sort(programs)
	return &AbandonedError{Programs: programs}
}

// AbandonedError is returned by Close if killed programs did not return.
type AbandonedError struct {
	// Programs are the names of their containers: name, pod, namespace, UID and attempt joined by
	// "_", as in real runtimes.
	Programs []string
}

func (e *AbandonedError) Error() string {
	return fmt.Sprintf("fake: %d killed programs did not return: %s", len(e.Programs), strings.Join(e.Programs, ", "))
}

// ended records a task whose program was abandoned, and notifies the task's owner.
func (rt *Runtime) ended(t *task, e exit) {
	if e.abandoned {
		name := t.owner.name()
		rt.cfg.Logger.Warn("abandoning a killed program that did not return", "container", name)
		rt.mu.Lock()
		rt.abandoned[t] = name
		rt.mu.Unlock()
	}
	t.owner.ended(e)
}

// returned records that an abandoned program returned.
func (rt *Runtime) returned(t *task) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	delete(rt.abandoned, t)
}
