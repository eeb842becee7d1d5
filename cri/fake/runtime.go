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

// Runtime is a container runtime in memory. It is ready for use when New returns
// and is used in process, through its methods, or over gRPC, through Serve or
// Register. Close ends it. Safe for concurrent use.
type Runtime struct {
	cfg Config
	clock
	images *imageStore
	events *broadcaster
	logs   logGate
	conns  *connections

	// starts counts programs on their way into a container, so that Close
	// misses none.
	starts starts

	// mu guards what exists. Neither a program nor a hook is called under it.
	mu         sync.RWMutex
	store      store
	addresses  addressPool
	conditions [2]condition
	closed     bool
	down       bool               // by Stop
	life       *life              // of the runtime's process
	execs      map[*task]struct{} // commands in containers, also in those that are gone
	abandoned  map[*task]string   // still running programs of ended tasks
}

// New makes a runtime.
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

// Close kills every container, waits for their programs and refuses further
// calls with code Unavailable. A program that does not return within 10 seconds
// is named in the error, and so is one whose Resolver does not. The state can no
// longer be read. Close can be repeated.
func (rt *Runtime) Close() error {
	rt.mu.Lock()
	rt.closed = true
	rt.life.end(closedError())
	rt.mu.Unlock()
	rt.logs.release()
	// Tasks end within killTimeout, so that this has no error.
	_ = rt.killPrograms(programRoot{})
	return rt.abandonedError()
}

// tasks are all that run. rt.mu is held.
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

// AbandonedError is returned by Close when programs did not return after
// they were killed.
type AbandonedError struct {
	// Programs names their containers: name, pod, namespace, UID and attempt
	// joined by "_", as runtimes do.
	Programs []string
}

// Error lists the programs.
func (e *AbandonedError) Error() string {
	return fmt.Sprintf("fake: %d programs do not return: %s", len(e.Programs), strings.Join(e.Programs, ", "))
}

// ended keeps account of a task whose program has been abandoned, and tells who
// owns it.
func (rt *Runtime) ended(t *task, e exit) {
	if e.abandoned {
		name := t.owner.name()
		rt.cfg.Logger.Warn("a killed program does not return and is abandoned", "container", name)
		rt.mu.Lock()
		rt.abandoned[t] = name
		rt.mu.Unlock()
	}
	t.owner.ended(e)
}

// returned takes note that an abandoned program did return.
func (rt *Runtime) returned(t *task) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	delete(rt.abandoned, t)
}
