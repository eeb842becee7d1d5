package podstatus

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/clip"
)

// MaxTerminationText is the maximum size, in bytes, of termination messages in a pod's status.
// Each container may use an equal share of it twice: for its current and for its last
// termination.
const MaxTerminationText = 12288

// Normalize returns a status in the form in which it is stored, compared and written: times in
// whole seconds, like in the API; termination messages truncated to their share of
// MaxTerminationText, at a character boundary; init containers in the order of the spec, the
// others by name.
//
// s is not changed. The result shares its unchanged parts with s.
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

// sorted returns list if it is sorted, otherwise a sorted copy.
func sorted[T any](list []T, order func(a, b T) int) []T {
	if slices.IsSortedFunc(list, order) {
		return list
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, order)
	return list
}

// initIndex returns the index of an init container in the spec. An unknown name sorts last.
func initIndex(pod *v1.Pod, name string) int {
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return i
		}
	}
	return len(pod.Spec.InitContainers)
}

// normalState returns state itself if it is normal.
func normalState(state v1.ContainerState, limit int) v1.ContainerState {
	if r := state.Running; r != nil {
		if at := wholeSeconds(r.StartedAt); at != r.StartedAt {
			state.Running = &v1.ContainerStateRunning{StartedAt: at}
		}
	}
	if t := state.Terminated; t != nil {
		from, to, message := wholeSeconds(t.StartedAt), wholeSeconds(t.FinishedAt), clip.Text(t.Message, limit)
		if from != t.StartedAt || to != t.FinishedAt || message != t.Message {
			ended := *t
			ended.StartedAt, ended.FinishedAt, ended.Message = from, to, message
			state.Terminated = &ended
		}
	}
	return state
}

func wholeSecondsOf(t *metav1.Time) *metav1.Time {
	if t == nil || wholeSeconds(*t) == *t {
		return t
	}
	whole := wholeSeconds(*t)
	return &whole
}

// wholeSeconds truncates t to the precision of the API. A time in whole seconds keeps its time
// zone.
func wholeSeconds(t metav1.Time) metav1.Time {
	return metav1.NewTime(t.Truncate(time.Second))
}
