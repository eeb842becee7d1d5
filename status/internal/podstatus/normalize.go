package podstatus

import (
	"slices"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxTerminationText is how many bytes of termination messages a pod's status
// holds. Each container may have an equal share of it, twice: for its current
// and for its last termination.
const MaxTerminationText = 12288

// Normalize brings a status into the form in which it is kept, compared and
// written: times in whole seconds, as the API stores them; termination messages
// cut to their share of MaxTerminationText, at the end of a character; init
// containers in the order of the spec, the others by name. What is normal
// already comes back as it is.
//
// s is not changed, and the result shares with it what is alike.
func Normalize(pod *v1.Pod, s v1.PodStatus) v1.PodStatus {
	s.StartTime = wholeSecondsOf(s.StartTime)
	s.Conditions = normalConditions(s.Conditions)
	limit := MaxTerminationText / max(1, len(pod.Spec.Containers)+len(pod.Spec.InitContainers)+len(pod.Spec.EphemeralContainers))
	s.InitContainerStatuses = normalContainers(s.InitContainerStatuses, limit)
	s.ContainerStatuses = normalContainers(s.ContainerStatuses, limit)
	s.EphemeralContainerStatuses = normalContainers(s.EphemeralContainerStatuses, limit)
	s.InitContainerStatuses = sorted(s.InitContainerStatuses, func(a, b v1.ContainerStatus) int {
		return initIndex(pod, a.Name) - initIndex(pod, b.Name)
	})
	s.ContainerStatuses = sorted(s.ContainerStatuses, ByName)
	s.EphemeralContainerStatuses = sorted(s.EphemeralContainerStatuses, ByName)
	return s
}

func normalConditions(list []v1.PodCondition) []v1.PodCondition {
	copied := false
	for i := range list {
		c := &list[i]
		probed, changed := wholeSeconds(c.LastProbeTime), wholeSeconds(c.LastTransitionTime)
		if probed == c.LastProbeTime && changed == c.LastTransitionTime {
			continue
		}
		if !copied {
			list, copied = slices.Clone(list), true
		}
		list[i].LastProbeTime, list[i].LastTransitionTime = probed, changed
	}
	return list
}

func normalContainers(list []v1.ContainerStatus, limit int) []v1.ContainerStatus {
	copied := false
	for i := range list {
		c := &list[i]
		state, last := normalState(c.State, limit), normalState(c.LastTerminationState, limit)
		if state == c.State && last == c.LastTerminationState {
			continue
		}
		if !copied {
			list, copied = slices.Clone(list), true
		}
		list[i].State, list[i].LastTerminationState = state, last
	}
	return list
}

// sorted sorts a list, or a copy of it where it was not sorted.
func sorted[T any](list []T, order func(a, b T) int) []T {
	if slices.IsSortedFunc(list, order) {
		return list
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, order)
	return list
}

// initIndex is the place of an init container in the spec; one that is not in it
// comes last.
func initIndex(pod *v1.Pod, name string) int {
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return i
		}
	}
	return len(pod.Spec.InitContainers)
}

// normalState returns the state itself where nothing is to be changed.
func normalState(state v1.ContainerState, limit int) v1.ContainerState {
	if r := state.Running; r != nil {
		if at := wholeSeconds(r.StartedAt); at != r.StartedAt {
			state.Running = &v1.ContainerStateRunning{StartedAt: at}
		}
	}
	if t := state.Terminated; t != nil {
		from, to, message := wholeSeconds(t.StartedAt), wholeSeconds(t.FinishedAt), cut(t.Message, limit)
		if from != t.StartedAt || to != t.FinishedAt || message != t.Message {
			ended := *t
			ended.StartedAt, ended.FinishedAt, ended.Message = from, to, message
			state.Terminated = &ended
		}
	}
	return state
}

// cut keeps at most limit bytes, and no part of a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for i := limit; i > limit-utf8.UTFMax && i >= 0; i-- {
		if utf8.RuneStart(text[i]) {
			return text[:i]
		}
	}
	return text[:limit] // no text at all
}

func wholeSecondsOf(t *metav1.Time) *metav1.Time {
	if t == nil || wholeSeconds(*t) == *t {
		return t
	}
	whole := wholeSeconds(*t)
	return &whole
}

// wholeSeconds drops what the API does not store. A time that is in whole
// seconds already comes back as it is, in its time zone.
func wholeSeconds(t metav1.Time) metav1.Time {
	return metav1.NewTime(t.Truncate(time.Second))
}
