package status

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// Reasons of conditions.
const (
	reasonUnknownContainerStatuses = "UnknownContainerStatuses"
	reasonPodCompleted             = "PodCompleted"
	reasonPodFailed                = "PodFailed"
	reasonContainersNotInitialized = "ContainersNotInitialized"
	reasonContainersNotReady       = "ContainersNotReady"
	reasonReadinessGatesNotReady   = "ReadinessGatesNotReady"
	reasonRestartAllStarted        = "RestartAllContainersStarted"
)

// verdict is the content of a condition.
type verdict struct {
	ok              bool
	reason, message string
}

// owned tells whether a condition is the node agent's alone to set.
func owned(t v1.PodConditionType) bool {
	switch t {
	case v1.PodScheduled, v1.PodReady, v1.PodInitialized, v1.ContainersReady, v1.PodReadyToStartContainers,
		v1.PodResizePending, v1.PodResizeInProgress, v1.AllContainersRestarting:
		return true
	}
	return false
}

// ownConditions is how many conditions a pod usually has of the node agent's.
const ownConditions = 5

// shared tells whether the node agent is one of several authors of a condition.
func shared(t v1.PodConditionType) bool { return t == v1.DisruptionTarget }

// otherConditions begins the list with the conditions of others and
// DisruptionTarget.
func (b *builder) otherConditions(s *v1.PodStatus) {
	s.Conditions = make([]v1.PodCondition, 0, len(b.api.Conditions)+ownConditions)
	for i := range b.api.Conditions {
		if c := &b.api.Conditions[i]; !owned(c.Type) && !shared(c.Type) {
			s.Conditions = append(s.Conditions, *c)
		}
	}
	b.passOn(s, v1.DisruptionTarget)
}

// passOn takes a condition over from the previous status.
func (b *builder) passOn(s *v1.PodStatus, t v1.PodConditionType) {
	if c := podfacts.Condition(b.old.Conditions, t); c != nil {
		s.Conditions = append(s.Conditions, *c)
	}
}

// conditions adds the node agent's own conditions. It returns whether all
// containers are still to be started anew.
func (b *builder) conditions(s *v1.PodStatus) (restartAll bool) {
	if !podfacts.IsTerminalPhase(s.Phase) { // what has ended is resized no more
		b.passOn(s, v1.PodResizePending)
		b.passOn(s, v1.PodResizeInProgress)
	}
	if podfacts.MayRestartAll(b.in.Pod) {
		v := b.restartingAll(s.Phase)
		restartAll = v.ok
		b.set(s, v1.AllContainersRestarting, v)
	}
	b.set(s, v1.PodReadyToStartContainers, b.readyToStart())
	b.set(s, v1.PodInitialized, initialized(b.in.Pod, s, b.old))
	b.set(s, v1.PodScheduled, verdict{ok: true})
	b.setReadiness(s)
	return restartAll
}

func (b *builder) set(s *v1.PodStatus, t v1.PodConditionType, v verdict) {
	setCondition(s, b.in.Pod.Generation, b.in.Now, newCondition(t, v), podfacts.Condition(b.old.Conditions, t))
}

func (b *builder) setReadiness(s *v1.PodStatus) {
	setReadiness(b.in.Pod, s, b.in.Now, b.old.Conditions)
}

// setReadiness sets ContainersReady and Ready, which follows from it. old are the
// conditions as they were. Ready comes last, since a gate may name any condition.
func setReadiness(pod *v1.Pod, s *v1.PodStatus, now time.Time, old []v1.PodCondition) {
	containers := containersReady(pod, s)
	setCondition(s, pod.Generation, now, newCondition(v1.ContainersReady, containers), podfacts.Condition(old, v1.ContainersReady))
	setCondition(s, pod.Generation, now, newCondition(v1.PodReady, podReady(pod, s, containers)), podfacts.Condition(old, v1.PodReady))
}

func newCondition(t v1.PodConditionType, v verdict) v1.PodCondition {
	c := v1.PodCondition{Type: t, Status: v1.ConditionFalse, Reason: v.reason, Message: v.message}
	if v.ok {
		c.Status = v1.ConditionTrue
	}
	return c
}

// setCondition puts a condition into the list, in place of one of its type. Its
// transition time moves only with its status, and its generation only upwards.
func setCondition(s *v1.PodStatus, generation int64, now time.Time, c v1.PodCondition, old *v1.PodCondition) {
	if old == nil {
		old = &v1.PodCondition{}
	}
	if c.Type != v1.AllContainersRestarting {
		c.ObservedGeneration = max(generation, old.ObservedGeneration)
	}
	c.LastTransitionTime = metav1.NewTime(now)
	if old.Status == c.Status && !old.LastTransitionTime.IsZero() {
		c.LastTransitionTime = old.LastTransitionTime
	}
	put(s, c)
}

// readyToStart tells that the sandbox with its network is there.
func (b *builder) readyToStart() verdict {
	if !b.observed() {
		c := podfacts.Condition(b.old.Conditions, v1.PodReadyToStartContainers)
		return verdict{ok: c != nil && c.Status == v1.ConditionTrue}
	}
	return verdict{ok: !b.in.Observed.SandboxChanged(b.in.Pod.Spec.HostNetwork).Changed}
}

// ended is why a condition is False in a pod of a terminal phase.
func ended(phase v1.PodPhase) verdict {
	if phase == v1.PodSucceeded {
		return verdict{reason: reasonPodCompleted}
	}
	return verdict{reason: reasonPodFailed}
}

func (b *builder) restartingAll(phase v1.PodPhase) verdict {
	switch {
	case podfacts.IsTerminalPhase(phase):
		return ended(phase)
	case !b.restartAll, b.allGone():
		return verdict{}
	default:
		return verdict{ok: true, reason: reasonRestartAllStarted}
	}
}

// initialized tells that the init containers have done their work, at least
// once.
func initialized(pod *v1.Pod, s, old *v1.PodStatus) verdict {
	if len(pod.Spec.InitContainers) > 0 && s.InitContainerStatuses == nil && s.ContainerStatuses == nil {
		return verdict{reason: reasonUnknownContainerStatuses}
	}
	var missing, incomplete []string
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		status := find(s.InitContainerStatuses, c.Name)
		switch {
		case status == nil:
			missing = append(missing, c.Name)
		case podfacts.IsSidecar(c) && !isTrue(status.Started), !podfacts.IsSidecar(c) && !status.Ready:
			incomplete = append(incomplete, c.Name)
		}
	}
	if s.Phase == v1.PodSucceeded && len(missing) == 0 {
		return verdict{ok: true, reason: reasonPodCompleted}
	}
	for i := range s.ContainerStatuses {
		if state := &s.ContainerStatuses[i].State; state.Running != nil || state.Terminated != nil {
			return verdict{ok: true}
		}
	}
	if len(missing)+len(incomplete) == 0 {
		return verdict{ok: true}
	}
	if c := podfacts.Condition(old.Conditions, v1.PodInitialized); c != nil && c.Status == v1.ConditionTrue {
		return verdict{ok: true}
	}
	return verdict{reason: reasonContainersNotInitialized, message: names(missing, "incomplete", incomplete)}
}

// containersReady tells that every container that is meant to stay up is ready.
func containersReady(pod *v1.Pod, s *v1.PodStatus) verdict {
	if s.InitContainerStatuses == nil && s.ContainerStatuses == nil {
		return verdict{reason: reasonUnknownContainerStatuses}
	}
	var missing, unready []string
	check := func(name string, statuses []v1.ContainerStatus) {
		if status := find(statuses, name); status == nil {
			missing = append(missing, name)
		} else if !status.Ready {
			unready = append(unready, name)
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podfacts.IsSidecar(c) {
			check(c.Name, s.InitContainerStatuses)
		}
	}
	for i := range pod.Spec.Containers {
		check(pod.Spec.Containers[i].Name, s.ContainerStatuses)
	}
	switch {
	case s.Phase == v1.PodSucceeded && len(missing) == 0:
		return verdict{reason: reasonPodCompleted}
	case s.Phase == v1.PodFailed:
		return verdict{reason: reasonPodFailed}
	case len(missing)+len(unready) > 0:
		return verdict{reason: reasonContainersNotReady, message: names(missing, "unready", unready)}
	default:
		return verdict{ok: true}
	}
}

// podReady adds the readiness gates to ContainersReady. The gates' conditions
// must be in the list already.
func podReady(pod *v1.Pod, s *v1.PodStatus, containers verdict) verdict {
	if !containers.ok {
		return containers
	}
	if closed := podfacts.ClosedGates(pod, s.Conditions); closed != "" {
		return verdict{reason: reasonReadinessGatesNotReady, message: closed}
	}
	return verdict{ok: true}
}

// names lists the containers whose status is missing, and those that are short
// of something.
func names(missing []string, what string, short []string) string {
	var parts []string
	if len(missing) > 0 {
		parts = append(parts, fmt.Sprintf("containers with unknown status: [%s]", strings.Join(missing, " ")))
	}
	if len(short) > 0 {
		parts = append(parts, fmt.Sprintf("containers with %s status: [%s]", what, strings.Join(short, " ")))
	}
	return strings.Join(parts, ", ")
}
