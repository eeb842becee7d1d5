package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
)

// regular decides for the regular containers of an initialised pod. If none is kept and none
// starts, the pod is over; sidecars do not keep it alive.
func (d *decision) regular() {
	kept := 0
	for i := range d.in.Pod.Spec.Containers {
		c := &d.in.Pod.Spec.Containers[i]
		current := d.current(c.Name)
		d.sweep(c.Name, current)
		keep, start := d.judge(i, current)
		if start && !d.deleted {
			d.out.StartRegular = append(d.out.StartRegular, i)
		}
		if keep {
			kept++
		}
	}
	if kept == 0 && len(d.out.StartRegular) == 0 {
		d.end("no container runs or may restart")
	}
}

// regularDone reports whether every regular container has exited for good.
func (d *decision) regularDone() bool {
	for i := range d.in.Pod.Spec.Containers {
		c := &d.in.Pod.Spec.Containers[i]
		current := d.current(c.Name)
		if current == nil || current.State != observed.StateExited || !d.deleted && podfacts.MayRestart(d.in.Pod, c, current.ExitCode) {
			return false
		}
	}
	return true
}

func (d *decision) judge(i int, current *observed.Container) (keep, start bool) {
	c := &d.in.Pod.Spec.Containers[i]
	switch {
	case current == nil:
		return false, true
	case current.State == observed.StateCreated:
		d.out.Remove = append(d.out.Remove, *current)
		return false, true
	case current.State == observed.StateUnknown:
		d.kill(current, "", "Container "+c.Name+" is in unknown state, it is stopped before it is restarted", false)
		return false, true
	case current.State == observed.StateExited:
		return false, podfacts.MayRestart(d.in.Pod, c, current.ExitCode)
	default:
		return d.running(i, current)
	}
}

// running decides for a running regular container.
func (d *decision) running(i int, current *observed.Container) (keep, start bool) {
	c := &d.in.Pod.Spec.Containers[i]
	again := podfacts.EffectivePolicy(d.in.Pod, c) != v1.RestartPolicyNever
	// Rules match exit codes: until the exit code exists, the pod is not over.
	await := !again && hasRules(c)
	switch {
	case !d.here(current):
		d.kill(current, "", "Container "+c.Name+" is left over from an earlier sandbox", again && !d.deleted)
		return await, again
	case current.Hash != 0 && current.Hash != podfacts.Hash(c):
		d.kill(current, "", "Container "+c.Name+" definition changed", !d.deleted)
		return false, true
	case d.probed(current, probe.Liveness) == probe.Failure:
		d.kill(current, KillLivenessProbe, "Container "+c.Name+" failed liveness probe", again && !d.deleted)
		return await, again
	case d.probed(current, probe.Startup) == probe.Failure:
		d.kill(current, KillStartupProbe, "Container "+c.Name+" failed startup probe", again && !d.deleted)
		return await, again
	case d.resize(c, target{current: current, index: i}):
		return false, true
	default:
		return true, false
	}
}

// hasRules reports whether a container has effective restart rules.
func hasRules(c *v1.Container) bool { return c.RestartPolicy != nil && len(c.RestartPolicyRules) > 0 }
