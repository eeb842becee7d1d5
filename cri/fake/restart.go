package fake

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A Loss is the loss of state in a restart of the runtime. The effects were measured with
// containerd 1.6 and 2.2.
type Loss int

const (
	// LoseNothing is a restart of the runtime's own process. Containers, their commands and the
	// programs of both keep running. Containers that ended meanwhile are EXITED with their own code
	// and time. A StartContainer that was cut off has no effect. Output between Stop and Start is
	// logged at the Start, with that time. It is limited to 64 KiB per stream, the size of a pipe; a
	// program that writes more blocks.
	LoseNothing Loss = iota
	// LoseProcesses is a reboot of a node that keeps its disk. Every program is killed. Running
	// containers are EXITED with code 255, reason Unknown and the time of the start. Sandboxes are
	// NOTREADY and show their old addresses until they are stopped. CREATED containers stay CREATED
	// but cannot be started. Images are kept.
	LoseProcesses
	// LoseAll is a restart with an empty disk: every program is killed and the runtime has no
	// objects. The images are Config.Images again.
	LoseAll
)

// String returns the name of the loss.
func (l Loss) String() string {
	switch l {
	case LoseNothing:
		return "nothing"
	case LoseProcesses:
		return "processes"
	case LoseAll:
		return "all"
	}
	return fmt.Sprintf("Loss(%d)", int(l))
}

// Stop takes the runtime down, as a kill of its process does. Containers keep running. Waiting
// calls (in StopContainer, ExecSync, PullImage, in a hook of Config) end at once with code
// Unavailable, event streams break, and connections of servers from NewServer and Serve are cut.
// Further calls fail with Unavailable and further connections are dropped, but the listeners stay.
// A pull that is cut off leaves no trace. Methods that are not CRI calls keep working. Stopping a
// stopped runtime has no effect. See Start.
func (rt *Runtime) Stop() {
	rt.mu.Lock()
	if rt.down || rt.closed {
		rt.mu.Unlock()
		return
	}
	rt.logs.hold()
	rt.down = true
	rt.life.end(cutError())
	rt.mu.Unlock()
	rt.conns.cut()
}

// Start starts a runtime after Stop. It first kills the programs that loss does not keep, and waits
// for them. It fails if the runtime is closed, or if loss is not one of the constants. ctx bounds the
// wait for programs; if it ends first, the runtime stays down. Starting a running runtime has no
// effect.
func (rt *Runtime) Start(ctx context.Context, loss Loss) error {
	if loss < LoseNothing || loss > LoseAll {
		return fmt.Errorf("fake: unknown loss %v", loss)
	}
	rt.mu.RLock()
	up := !rt.down
	rt.mu.RUnlock()
	if up {
		return rt.closedOr(nil)
	}
	if loss != LoseNothing {
		rt.logs.discard()
		if err := rt.killPrograms(ctx); err != nil {
			return err
		}
		rt.logs.discard() // their last output
	}
	held, err := rt.comeUp(loss)
	settle(held, true)
	return err
}

// comeUp starts the runtime. The caller settles the returned delayed logs without the lock, because
// they call Config.OpenLog's writers.
func (rt *Runtime) comeUp(loss Loss) (held []func(keep bool), err error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.closed {
		return nil, closedError()
	}
	if !rt.down {
		return nil, nil
	}
	rt.recover(loss)
	rt.down, rt.life = false, newLife()
	return rt.logs.open(), nil
}

// Restart is Stop and Start. The runtime starts even if ctx ends meanwhile; Restart then returns
// the error of ctx.
func (rt *Runtime) Restart(ctx context.Context, loss Loss) error {
	rt.Stop()
	if err := rt.Start(context.WithoutCancel(ctx), loss); err != nil {
		return err
	}
	return ctx.Err()
}

func (rt *Runtime) closedOr(err error) error {
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	if rt.closed {
		return closedError()
	}
	return err
}

// killPrograms kills all programs and waits for their end. The runtime is down or closed: a start
// that is not done after killTimeout, because its Resolver does not return, is discarded when it
// returns.
func (rt *Runtime) killPrograms(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, killTimeout)
	rt.starts.wait(bounded)
	cancel()
	if ctx.Err() != nil {
		return callEnded(ctx)
	}
	rt.mu.RLock()
	tasks := rt.tasks()
	rt.mu.RUnlock()
	for _, t := range tasks {
		t.kill()
	}
	for _, t := range tasks {
		if err := await(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// recover applies loss to the state. The caller holds rt.mu.
func (rt *Runtime) recover(loss Loss) {
	if loss == LoseAll {
		rt.store = newStore()
		rt.addresses = newAddressPool(rt.cfg.FixedIPs, rt.addresses.prefixes()...)
		rt.images.reset(rt.cfg.Images)
		return
	}
	now := rt.now().UnixNano()
	for c := range rt.store.all.all() {
		c.signalled = false // not on disk
		if c.endedUnseen && loss == LoseProcesses {
			c.endUnknown(now)
		}
		c.endedUnseen = false
	}
	if loss == LoseProcesses {
		for b := range rt.store.allSandboxes.all() {
			b.ready, b.stopping = false, true
		}
	}
}

// endUnknown sets the state after an unseen end of the process.
func (c *container) endUnknown(now int64) {
	c.state = runtimeapi.ContainerState_CONTAINER_EXITED
	c.finishedAt, c.exitCode = now, exitUnknown
	c.reason, c.message = reasonUnknown, ""
}
