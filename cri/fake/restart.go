package fake

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A Loss says what a start of the runtime finds of what there was before. What
// containerd 1.6 and 2.2 show in each case has been measured.
type Loss int

const (
	// LoseNothing is a restart of the runtime's own process. Containers and
	// commands in them went on running, and so do their programs. What ended
	// meanwhile is EXITED with its own code and time. A StartContainer that was
	// cut off has not happened. What programs wrote meanwhile is in the logs with the time of
	// the start; it is as much as a pipe holds, 64 KiB for each stream, and a
	// program that writes more waits.
	LoseNothing Loss = iota
	// LoseProcesses is a reboot of the node whose disk is kept. Every program
	// is killed. What ran is EXITED with code 255, reason Unknown and the time
	// of the start, sandboxes are NOTREADY and name their old addresses until
	// they are stopped, containers that were CREATED still are, though they
	// can no longer be started. Images are kept.
	LoseProcesses
	// LoseAll is a node whose runtime comes up with an empty disk: every
	// program is killed and nothing is known. Images are those of Config.Images.
	LoseAll
)

// String names the loss.
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

// Stop takes the runtime down, as when its process is killed: containers go on
// running and nothing answers any more. Calls that wait (in StopContainer,
// ExecSync, PullImage, in a hook of Config) end at once with code Unavailable,
// event streams break, and connections of servers that NewServer and Serve have
// made are cut; further calls get Unavailable and further connections are
// dropped, while the listeners stay. A pull that is cut off leaves nothing.
// Levers that are not calls work on. Stopping a runtime that is down does
// nothing. See Start.
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

// Start brings a runtime that Stop has taken down up again. What it loses of
// the programs is killed first and waited for. It fails when the runtime is
// closed, or when loss is none of the constants; ctx bounds the wait for
// programs, and when it ends the runtime stays down. Starting a runtime that is
// up does nothing.
func (rt *Runtime) Start(ctx context.Context, loss Loss) error {
	if loss < LoseNothing || loss > LoseAll {
		return fmt.Errorf("fake: there is no loss %v", loss)
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
		rt.logs.discard() // their last words
	}
	held, err := rt.comeUp(loss)
	settle(held, true)
	return err
}

// comeUp ends the time that the runtime is down. What it returns of the logs is
// written without the lock: that is up to Config.OpenLog.
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

// Restart is Stop and Start. The runtime comes up even if ctx ends meanwhile, and the
// error is then that of ctx.
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

// killPrograms kills everything that runs and waits for its end. The runtime is
// down, or closed: what is still on its way after killTimeout, because its
// Resolver does not return, will find that nobody wants it.
func (rt *Runtime) killPrograms(ctx context.Context) error {
	patience, cancel := context.WithTimeout(ctx, killTimeout)
	rt.starts.wait(patience)
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

// recover makes of what there was what the runtime finds. rt.mu is held.
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

// endUnknown fills in the end of a process of which nothing was seen.
func (c *container) endUnknown(now int64) {
	c.state = runtimeapi.ContainerState_CONTAINER_EXITED
	c.finishedAt, c.exitCode = now, exitUnknown
	c.reason, c.message = reasonUnknown, ""
}
