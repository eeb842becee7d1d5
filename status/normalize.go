package status

import (
	"slices"
	"strings"
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
	s.Conditions = edit(s.Conditions, func(c *v1.PodCondition) {
		c.LastProbeTime, c.LastTransitionTime = wholeSeconds(c.LastProbeTime), wholeSeconds(c.LastTransitionTime)
	}, func(a, b *v1.PodCondition) bool {
		return a.LastProbeTime == b.LastProbeTime && a.LastTransitionTime == b.LastTransitionTime
	})
	limit := MaxTerminationText
	if n := len(pod.Spec.Containers) + len(pod.Spec.InitContainers) + len(pod.Spec.EphemeralContainers); n > 0 {
		limit /= n
	}
	for _, list := range []*[]v1.ContainerStatus{&s.InitContainerStatuses, &s.ContainerStatuses, &s.EphemeralContainerStatuses} {
		*list = edit(*list, func(c *v1.ContainerStatus) {
			c.State, c.LastTerminationState = normalState(c.State, limit), normalState(c.LastTerminationState, limit)
		}, func(a, b *v1.ContainerStatus) bool {
			return a.State == b.State && a.LastTerminationState == b.LastTerminationState
		})
	}
	s.InitContainerStatuses = sorted(s.InitContainerStatuses, func(a, b v1.ContainerStatus) int {
		return initIndex(pod, a.Name) - initIndex(pod, b.Name)
	})
	byName := func(a, b v1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) }
	s.ContainerStatuses = sorted(s.ContainerStatuses, byName)
	s.EphemeralContainerStatuses = sorted(s.EphemeralContainerStatuses, byName)
	return s
}

// edit changes the elements of a list; the list is copied when it has to be.
func edit[T any](list []T, change func(*T), same func(a, b *T) bool) []T {
	copied := false
	for i := range list {
		element := list[i]
		change(&element)
		if same(&element, &list[i]) {
			continue
		}
		if !copied {
			list, copied = slices.Clone(list), true
		}
		list[i] = element
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
		ended := *t
		ended.StartedAt, ended.FinishedAt = wholeSeconds(t.StartedAt), wholeSeconds(t.FinishedAt)
		ended.Message = cut(t.Message, limit)
		if ended != *t {
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
	for i := limit; i > limit-utf8.UTFMax && i > 0; i-- {
		if utf8.RuneStart(text[i]) {
			return text[:i]
		}
	}
	return text[:limit] // no text at all
}

func wholeSecondsOf(t *metav1.Time) *metav1.Time {
	if t == nil {
		return nil
	}
	if whole := wholeSeconds(*t); whole != *t {
		return &whole
	}
	return t
}

// wholeSeconds drops what the API does not store. A time that is in whole
// seconds already comes back as it is, in its time zone.
func wholeSeconds(t metav1.Time) metav1.Time {
	if t.Nanosecond() == 0 && t.Round(0) == t.Time {
		return t
	}
	return metav1.NewTime(t.Truncate(time.Second))
}
