package pods

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg"
)

// ProbeResult is what a liveness or startup probe says of a container. The zero
// value is ProbeUnknown: it never restarts anything.
type ProbeResult int8

// The results of a probe.
const (
	ProbeUnknown ProbeResult = iota
	ProbeSuccess
	ProbeFailure
)

// KillReason says why a container is stopped. Probe-level grace periods depend
// on it.
type KillReason string

// The reasons to stop a container. The zero value is any other reason.
const (
	KillLivenessProbe KillReason = "LivenessProbe"
	KillStartupProbe  KillReason = "StartupProbe"
)

// ActionsInput is all that the next actions of a pod depend on.
type ActionsInput struct {
	// Pod is the desired pod.
	Pod *v1.Pod
	// Status is what the runtime has of it.
	Status *pleg.PodStatus
	// Liveness and Startup are the results of the probes by container; a missing
	// one is unknown.
	Liveness, Startup map[pleg.ContainerID]ProbeResult
}

// ContainerKill is a container to stop.
type ContainerKill struct {
	ID      pleg.ContainerID
	Name    string
	Reason  KillReason
	Message string
}

// Actions is what brings a pod closer to its spec. Nothing to do is the zero
// value apart from SandboxID and Attempt.
type Actions struct {
	// KillPod stops all containers and all sandboxes.
	KillPod bool
	// CreateSandbox starts a new sandbox, after KillPod.
	CreateSandbox bool
	// SandboxID is the current sandbox, or the one that is replaced; "" when
	// nothing is kept of it.
	SandboxID string
	// Attempt is the attempt number of the new sandbox, or of the current one.
	Attempt uint32
	// Kill are containers to stop. With KillPod, which stops them all, they are
	// the ones that have a reason of their own.
	Kill []ContainerKill
	// Remove are containers that were created but never started: an agent died
	// in between, or the runtime refused. They are replaced.
	Remove []pleg.ContainerStatus
	// Start are the regular containers to start, as indices into
	// Pod.Spec.Containers, in order.
	Start []int
}

// ComputeActions decides what to do with a pod. It is pure.
func ComputeActions(in ActionsInput) Actions {
	change := in.Status.SandboxChanged(in.Pod.Spec.HostNetwork)
	actions := Actions{
		KillPod:       change.Changed,
		CreateSandbox: change.Changed,
		SandboxID:     change.ID,
		Attempt:       change.Attempt,
	}
	if change.Changed {
		actions.replaceSandbox(in)
	} else {
		actions.regular(in)
	}
	return actions
}

// replaceSandbox decides whether a pod without a usable sandbox gets a new one,
// and what starts in it.
func (a *Actions) replaceSandbox(in ActionsInput) {
	for i := range in.Pod.Spec.Containers {
		c := &in.Pod.Spec.Containers[i]
		if runsInNewSandbox(in, c) {
			a.Start = append(a.Start, i)
			a.Remove = append(a.Remove, instances(in.Status, c.Name, pleg.StateCreated)...)
		}
	}
	a.CreateSandbox = len(a.Start) > 0
}

// runsInNewSandbox tells whether a regular container is started in a new
// sandbox. A container that was created and never started counts as never run.
func runsInNewSandbox(in ActionsInput, c *v1.Container) bool {
	if in.Pod.DeletionTimestamp != nil {
		return false
	}
	newest := current(in.Status, c.Name)
	policy := podfacts.EffectivePolicy(in.Pod, c)
	switch {
	case in.Pod.Spec.RestartPolicy == v1.RestartPolicyNever && anyRan(in.Status) &&
		(c.RestartPolicy == nil || policy == v1.RestartPolicyNever):
		// The pod has run once, and once is what it asked for: the parts that
		// did not get their turn do not get one without the others.
		return false
	case newest == nil || newest.State == pleg.StateCreated:
		return true
	case policy == v1.RestartPolicyNever:
		return false
	case policy == v1.RestartPolicyOnFailure:
		return newest.State != pleg.StateExited || newest.ExitCode != 0
	default:
		return true
	}
}

// anyRan tells whether a container of the pod was ever started.
func anyRan(s *pleg.PodStatus) bool {
	for i := range s.Containers {
		if s.Containers[i].State != pleg.StateCreated {
			return true
		}
	}
	return false
}

// regular decides about the regular containers of a pod whose sandbox is good.
func (a *Actions) regular(in ActionsInput) {
	kept := 0
	for i := range in.Pod.Spec.Containers {
		v := judge(in, &in.Pod.Spec.Containers[i])
		a.Kill = append(a.Kill, v.kill...)
		a.Remove = append(a.Remove, v.remove...)
		if v.start {
			a.Start = append(a.Start, i)
		}
		if v.keep {
			kept++
		}
	}
	if kept == 0 && len(a.Start) == 0 {
		a.KillPod, a.Remove = true, nil
	}
}

// verdict is the decision on one container name.
type verdict struct {
	keep, start bool
	kill        []ContainerKill
	remove      []pleg.ContainerStatus
}

// judge decides about one regular container.
func judge(in ActionsInput, c *v1.Container) verdict {
	var v verdict
	cur := current(in.Status, c.Name)
	deleted := in.Pod.DeletionTimestamp != nil
	// Whatever else has the name is left over: from an agent that died between
	// creating and starting, or that lost the answer of a call.
	for i := range in.Status.Containers {
		s := &in.Status.Containers[i]
		if s == cur || s.Name != c.Name {
			continue
		}
		switch s.State {
		case pleg.StateRunning, pleg.StateUnknown:
			v.addKill(s, "", "Container "+c.Name+" has a newer instance")
		case pleg.StateCreated:
			v.remove = append(v.remove, *s)
		}
	}
	switch {
	case cur == nil:
		v.start = !deleted
	case cur.State == pleg.StateCreated:
		v.start = !deleted
		v.remove = append(v.remove, *cur)
	case cur.State == pleg.StateUnknown:
		v.start = !deleted
		v.addKill(cur, "", "Container "+c.Name+" is in unknown state, it is stopped before it is restarted")
	case cur.State == pleg.StateExited:
		v.start = !deleted && podfacts.MayRestart(in.Pod, c, cur.ExitCode)
	default:
		v.running(in, c, cur)
	}
	return v
}

// running decides about a container that runs.
func (v *verdict) running(in ActionsInput, c *v1.Container, cur *pleg.ContainerStatus) {
	mayRestart := podfacts.EffectivePolicy(in.Pod, c) != v1.RestartPolicyNever
	deleted := in.Pod.DeletionTimestamp != nil
	switch {
	case cur.Hash != 0 && cur.Hash != Hash(c):
		v.start = !deleted
		v.addKill(cur, "", "Container "+c.Name+" definition changed")
	case in.Liveness[cur.ID] == ProbeFailure:
		v.start = mayRestart && !deleted
		v.addKill(cur, KillLivenessProbe, "Container "+c.Name+" failed liveness probe")
	case in.Startup[cur.ID] == ProbeFailure:
		v.start = mayRestart && !deleted
		v.addKill(cur, KillStartupProbe, "Container "+c.Name+" failed startup probe")
	default:
		v.keep = true
		return
	}
	if v.start {
		v.kill[len(v.kill)-1].Message += ", will be restarted"
	}
}

func (v *verdict) addKill(s *pleg.ContainerStatus, reason KillReason, message string) {
	v.kill = append(v.kill, ContainerKill{ID: s.ID, Name: s.Name, Reason: reason, Message: message})
}

// current returns the instance that stands for the container: the one that runs,
// whatever clocks say, else the newest.
func current(s *pleg.PodStatus, name string) *pleg.ContainerStatus {
	newest := s.Newest(name)
	if newest == nil || newest.State == pleg.StateRunning {
		return newest
	}
	for i := range s.Containers {
		if c := &s.Containers[i]; c.Name == name && c.State == pleg.StateRunning {
			return c
		}
	}
	return newest
}

// instances returns the instances of a container in a state.
func instances(s *pleg.PodStatus, name string, state pleg.State) []pleg.ContainerStatus {
	var out []pleg.ContainerStatus
	for _, c := range s.Containers {
		if c.Name == name && c.State == state {
			out = append(out, c)
		}
	}
	return out
}

// String describes the actions for a log.
func (a Actions) String() string {
	return fmt.Sprintf("killPod=%t createSandbox=%t attempt=%d kill=%d remove=%d start=%v",
		a.KillPod, a.CreateSandbox, a.Attempt, len(a.Kill), len(a.Remove), a.Start)
}
