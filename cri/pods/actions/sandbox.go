package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
)

// replaceSandbox decides whether a pod without a usable sandbox gets a new one, and which
// containers start in it.
func (d *decision) replaceSandbox() {
	pod := d.in.Pod
	if d.deleted {
		d.explain("the pod is being deleted")
		return
	}
	if name := d.failedInit(); name != "" {
		d.explain("init container " + name + " failed and does not restart")
		return
	}
	candidates := d.candidates()
	if len(candidates) == 0 {
		d.out.KillPod = !d.awaitExitCodes()
		d.explain("the sandbox has stopped and no container may restart")
		return
	}
	d.out.CreateSandbox = true
	for _, i := range candidates {
		d.removeCreated(pod.Spec.Containers[i].Name)
	}
	if len(pod.Spec.InitContainers) == 0 {
		d.out.StartRegular = candidates
		return
	}
	// Initialisation starts again in a new sandbox. Instances of the old one would look like
	// progress.
	d.pruneAllInit()
	d.out.StartInit = []int{0}
	d.explain("init container " + pod.Spec.InitContainers[0].Name + " runs first")
}

// failedInit returns the name of an init container that failed for good, or "". Such a pod has
// ended: a new sandbox does not restart it.
func (d *decision) failedInit() string {
	for i := range d.in.Pod.Spec.InitContainers {
		c := &d.in.Pod.Spec.InitContainers[i]
		newest := d.in.Status.Newest(c.Name)
		if newest != nil && newest.State == observed.StateExited && hasFailed(newest) && !d.mayRetry(c, newest.ExitCode) {
			return c.Name
		}
	}
	return ""
}

// awaitExitCodes stops the containers that have restart rules. Until their exit codes exist, the
// pod is not over. It reports whether there are any.
func (d *decision) awaitExitCodes() bool {
	for i := range d.in.Status.Containers {
		s := &d.in.Status.Containers[i]
		c := podfacts.Regular(d.in.Pod, s.Name)
		if c != nil && mayStillRun(s) && hasRules(c) {
			d.kill(s, "", "Container "+s.Name+" has lost its sandbox", false)
			d.explain("the exit code of container " + s.Name + " decides whether it restarts")
		}
	}
	return len(d.out.Kill) > 0
}

// candidates returns the regular containers that run in a new sandbox. A container that was
// created and never started counts as never run (#118321).
func (d *decision) candidates() []int {
	var out []int
	again := false
	for i := range d.in.Pod.Spec.Containers {
		runs, byOwnPolicy := d.runsInNewSandbox(&d.in.Pod.Spec.Containers[i])
		if runs {
			out = append(out, i)
		}
		again = again || runs && byOwnPolicy
	}
	// A pod with policy Never runs only once: containers that did not run get no second chance,
	// unless a container has a policy of its own that restarts it.
	if d.in.Pod.Spec.RestartPolicy == v1.RestartPolicyNever && d.anyRan() && !again {
		return nil
	}
	return out
}

// runsInNewSandbox reports whether a regular container runs in a new sandbox, and if so whether a
// policy of its own allows it. Restart rules can only add restarts, because the exit code of a
// container that ended with its sandbox is not the container's own.
func (d *decision) runsInNewSandbox(c *v1.Container) (runs, byOwnPolicy bool) {
	newest := d.in.Status.Newest(c.Name)
	policy := podfacts.EffectivePolicy(d.in.Pod, c)
	own := policy != v1.RestartPolicyNever // used only if the pod's policy is Never: then the policy is the container's own
	switch {
	case newest == nil || newest.State == observed.StateCreated:
		return true, own
	case policy == v1.RestartPolicyNever:
		ruled := newest.State == observed.StateExited && podfacts.MatchingRule(c, newest.ExitCode) != nil
		return ruled, ruled
	case policy == v1.RestartPolicyOnFailure:
		runs = newest.State != observed.StateExited || newest.ExitCode != 0
		return runs, own
	default:
		return true, own
	}
}

// anyRan reports whether any container of the pod was ever started.
func (d *decision) anyRan() bool {
	for i := range d.in.Status.Containers {
		if d.in.Status.Containers[i].State != observed.StateCreated {
			return true
		}
	}
	return false
}

func (d *decision) removeCreated(name string) {
	for i := range d.in.Status.Containers {
		if s := &d.in.Status.Containers[i]; s.Name == name && s.State == observed.StateCreated {
			d.out.Remove = append(d.out.Remove, *s)
		}
	}
}

func (d *decision) pruneAllInit() {
	for i := range d.in.Status.Containers {
		s := &d.in.Status.Containers[i]
		for j := range d.in.Pod.Spec.InitContainers {
			if d.in.Pod.Spec.InitContainers[j].Name == s.Name {
				d.out.PruneInit = append(d.out.PruneInit, *s)
			}
		}
	}
}
