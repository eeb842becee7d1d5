package fake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/cri"
)

var (
	_ cri.RuntimeService = (*Runtime)(nil)
	_ cri.ImageService   = (*Runtime)(nil)
)

// Runtime is a container runtime in memory. It is ready for use when New returns
// and is used in process, through its methods, or over gRPC, through Serve or
// Register. Run or Close ends it. Safe for concurrent use.
type Runtime struct {
	cfg    Config
	images *imageStore
	events *broadcaster

	// release lets go of what was taken for the runtime alone; may be nil.
	release     func() error
	releaseOnce sync.Once

	// starts counts programs on their way into a container, so that Close
	// misses none.
	starts sync.WaitGroup

	// mu guards what exists. Neither a program nor a hook is called under it.
	mu         sync.RWMutex
	store      store
	addresses  addressPool
	conditions [2]condition
	closed     bool
	abandoned  map[*task]string // still running programs of ended tasks
}

// New makes a runtime.
func New(cfg Config) (*Runtime, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	rt := &Runtime{
		cfg:        cfg,
		store:      newStore(),
		addresses:  newAddressPool(cfg.PodCIDRs, cfg.FixedIPs),
		conditions: readyConditions(),
		abandoned:  map[*task]string{},
		events:     newBroadcaster(),
		images:     newImageStore(cfg.Images, cfg.AnyImage),
	}
	return rt, nil
}

// Run waits for ctx to end and then closes the runtime. It is there for callers
// that run their parts side by side; the runtime works without it.
func (rt *Runtime) Run(ctx context.Context) error {
	<-ctx.Done()
	return rt.Close()
}

// Close kills every container, waits for their programs and refuses further
// calls with code Unavailable. A program that does not return within KillTimeout
// is named in the error. The state can no longer be read. Close can be repeated.
func (rt *Runtime) Close() error {
	rt.mu.Lock()
	rt.closed = true
	rt.mu.Unlock()
	rt.events.close()
	rt.starts.Wait()

	rt.mu.RLock()
	var tasks []*task
	for c := range rt.store.all.all() {
		tasks = c.appendTasks(tasks)
	}
	rt.mu.RUnlock()
	for _, t := range tasks {
		t.kill(rt.cfg.KillTimeout)
	}
	for _, t := range tasks {
		<-t.done
	}
	err := rt.abandonedError()
	if rt.release != nil {
		rt.releaseOnce.Do(func() { err = errors.Join(err, rt.release()) })
	}
	return err
}

func (c *container) appendTasks(tasks []*task) []*task {
	if c.task != nil {
		tasks = append(tasks, c.task)
	}
	for t := range c.execs {
		tasks = append(tasks, t)
	}
	return tasks
}

func (rt *Runtime) abandonedError() error {
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	if len(rt.abandoned) == 0 {
		return nil
	}
	return &AbandonedError{Programs: slices.Sorted(maps.Values(rt.abandoned))}
}

// AbandonedError is returned by Close and Run when programs did not return after
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

// enter begins a call: it fails when the caller has left or the runtime is
// closed, and lets Config.Intercept have its way.
func (rt *Runtime) enter(ctx context.Context, call string, request any) error {
	if err := ctx.Err(); err != nil {
		return contextError(err)
	}
	if rt.cfg.Intercept != nil {
		if err := rt.cfg.Intercept(ctx, call, request); err != nil {
			return interceptError(ctx, err)
		}
	}
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	if rt.closed {
		return closedError()
	}
	return nil
}

// interceptError keeps an intercepting error, but gives the end of the call's
// context its code.
func interceptError(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) && status.Code(err) == codes.Unknown {
		return contextError(err)
	}
	return err
}

// await waits for a task to end.
func await(ctx context.Context, t *task) error {
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return contextError(ctx.Err())
	}
}

// watch prepares a task: exited is called at its end, and the runtime keeps
// account of programs that are abandoned.
func (rt *Runtime) watch(t *task, name func() string, exited func(exit)) {
	t.exited = func(e exit) {
		if e.abandoned {
			rt.cfg.Logger.Warn("a killed program does not return and is abandoned", "container", name())
			rt.mu.Lock()
			rt.abandoned[t] = name()
			rt.mu.Unlock()
		}
		exited(e)
	}
	t.returned = func() {
		rt.mu.Lock()
		defer rt.mu.Unlock()
		delete(rt.abandoned, t)
	}
}
