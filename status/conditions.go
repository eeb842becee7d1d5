package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status/internal/podstatus"
)

const reasonRestartAllStarted = "RestartAllContainersStarted"

// ownConditions is the usual number of conditions that the node agent sets on a pod.
const ownConditions = 5

// otherConditions starts the list of conditions with the conditions of other components and
// DisruptionTarget.
func (b *builder) otherConditions(s *v1.PodStatus) {
	s.Conditions = make([]v1.PodCondition, 0, len(b.api.Conditions)+ownConditions)
	for i := range b.api.Conditions {
		if c := &b.api.Conditions[i]; !podstatus.Owned(c.Type) && !podstatus.Shared(c.Type) {
			s.Conditions = append(s.Conditions, *c)
		}
	}
	b.copyCondition(s, v1.DisruptionTarget)
}

func (b *builder) copyCondition(s *v1.PodStatus, t v1.PodConditionType) {
	if c := podfacts.Condition(b.old.Conditions, t); c != nil {
		s.Conditions = append(s.Conditions, *c)
	}
}

// conditions adds the node agent's own conditions. It returns whether the restart of all
// containers is in progress.
func (b *builder) conditions(s *v1.PodStatus) (restartAll bool) {
	if !podfacts.IsTerminalPhase(s.Phase) { // a resize ends with the pod
		b.copyCondition(s, v1.PodResizePending)
		b.copyCondition(s, v1.PodResizeInProgress)
	}
	if podfacts.MayRestartAll(b.in.Pod) {
		v := b.restartingAll(s.Phase)
		restartAll = v.OK
		b.set(s, v1.AllContainersRestarting, v)
	}
	b.set(s, v1.PodReadyToStartContainers, b.readyToStart())
	b.set(s, v1.PodInitialized, podstatus.Initialized(b.in.Pod, s, b.old))
	b.set(s, v1.PodScheduled, podstatus.Verdict{OK: true})
	podstatus.SetReadiness(b.in.Pod, s, b.in.Now, b.old.Conditions)
	return restartAll
}

func (b *builder) set(s *v1.PodStatus, t v1.PodConditionType, v podstatus.Verdict) {
	podstatus.SetCondition(s, b.in.Pod.Generation, b.in.Now, podstatus.NewCondition(t, v), podfacts.Condition(b.old.Conditions, t))
}

// readyToStart returns whether the sandbox and its network exist.
func (b *builder) readyToStart() podstatus.Verdict {
	if !b.observed() {
		return podstatus.Verdict{OK: podfacts.ConditionTrue(b.old.Conditions, v1.PodReadyToStartContainers)}
	}
	return podstatus.Verdict{OK: !b.in.Observed.SandboxChanged(b.in.Pod.Spec.HostNetwork).Changed}
}

func (b *builder) restartingAll(phase v1.PodPhase) podstatus.Verdict {
	switch {
	case podfacts.IsTerminalPhase(phase):
		return podstatus.Ended(phase)
	case !b.restartAll, b.allRemoved():
		return podstatus.Verdict{}
	default:
		return podstatus.Verdict{OK: true, Reason: reasonRestartAllStarted, Message: "container exited with restart policy rule"}
	}
}
