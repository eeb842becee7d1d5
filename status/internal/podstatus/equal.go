package podstatus

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/podwright/podwright/internal/podfacts"
)

// Equal reports whether two normalised statuses are equal in the node agent's part: the status,
// reason and message of its conditions, and all other fields that it decides. It ignores data of
// other components (their conditions, the statuses of resource claims, the nominated node), the
// times of conditions, and the difference between nil and empty lists.
func Equal(a, b *v1.PodStatus) bool {
	return a.ObservedGeneration == b.ObservedGeneration && a.Phase == b.Phase && a.Reason == b.Reason && a.Message == b.Message &&
		a.QOSClass == b.QOSClass && a.Resize == b.Resize && a.StartTime.Equal(b.StartTime) &&
		a.HostIP == b.HostIP && slices.Equal(a.HostIPs, b.HostIPs) && a.PodIP == b.PodIP && slices.Equal(a.PodIPs, b.PodIPs) &&
		sameList(a.AllocatedResources, b.AllocatedResources) && samePointed(a.Resources, b.Resources, SameRequirements) &&
		sameOrEmpty(a.VolumeHealth, b.VolumeHealth) &&
		subset(a.Conditions, b.Conditions) && subset(b.Conditions, a.Conditions) &&
		sameContainers(a.InitContainerStatuses, b.InitContainerStatuses) &&
		sameContainers(a.ContainerStatuses, b.ContainerStatuses) &&
		sameContainers(a.EphemeralContainerStatuses, b.EphemeralContainerStatuses)
}

// subset reports whether others contains every condition of list that the node agent sets, with
// the same content.
func subset(list, others []v1.PodCondition) bool {
	for i := range list {
		c := &list[i]
		if !Owned(c.Type) && !Shared(c.Type) {
			continue
		}
		other := podfacts.Condition(others, c.Type)
		if other == nil || other.Status != c.Status || other.Reason != c.Reason || other.Message != c.Message {
			return false
		}
	}
	return true
}

func sameContainers(a, b []v1.ContainerStatus) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !sameContainer(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

func sameContainer(a, b *v1.ContainerStatus) bool {
	return a.Name == b.Name && a.ContainerID == b.ContainerID && a.RestartCount == b.RestartCount && a.Ready == b.Ready &&
		a.Image == b.Image && a.ImageID == b.ImageID &&
		samePointed(a.Started, b.Started, sameValue) && samePointed(a.StopSignal, b.StopSignal, sameValue) &&
		sameState(&a.State, &b.State) && sameState(&a.LastTerminationState, &b.LastTerminationState) &&
		sameList(a.AllocatedResources, b.AllocatedResources) && samePointed(a.Resources, b.Resources, SameRequirements) &&
		slices.EqualFunc(a.VolumeMounts, b.VolumeMounts, sameMount) && samePointed(a.User, b.User, sameUser) &&
		sameOrEmpty(a.AllocatedResourcesStatus, b.AllocatedResourcesStatus)
}

func sameState(a, b *v1.ContainerState) bool {
	return samePointed(a.Waiting, b.Waiting, sameValue) &&
		samePointed(a.Running, b.Running, func(a, b *v1.ContainerStateRunning) bool { return a.StartedAt.Equal(&b.StartedAt) }) &&
		samePointed(a.Terminated, b.Terminated, sameEnd)
}

func sameEnd(a, b *v1.ContainerStateTerminated) bool {
	return a.ExitCode == b.ExitCode && a.Signal == b.Signal && a.Reason == b.Reason && a.Message == b.Message &&
		a.ContainerID == b.ContainerID && a.StartedAt.Equal(&b.StartedAt) && a.FinishedAt.Equal(&b.FinishedAt)
}

func sameMount(a, b v1.VolumeMountStatus) bool {
	return a.Name == b.Name && a.MountPath == b.MountPath && a.ReadOnly == b.ReadOnly &&
		samePointed(a.RecursiveReadOnly, b.RecursiveReadOnly, sameValue) &&
		(a.VolumeStatus == b.VolumeStatus || equality.Semantic.DeepEqual(a.VolumeStatus, b.VolumeStatus))
}

func sameUser(a, b *v1.ContainerUser) bool {
	return samePointed(a.Linux, b.Linux, func(a, b *v1.LinuxContainerUser) bool {
		return a.UID == b.UID && a.GID == b.GID && slices.Equal(a.SupplementalGroups, b.SupplementalGroups)
	})
}

func SameRequirements(a, b *v1.ResourceRequirements) bool {
	return sameList(a.Limits, b.Limits) && sameList(a.Requests, b.Requests) && slices.Equal(a.Claims, b.Claims)
}

// sameList compares quantities independent of their format.
func sameList(a, b v1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, q := range a {
		other, ok := b[name]
		if !ok || q != other && q.Cmp(other) != 0 {
			return false
		}
	}
	return true
}

// sameOrEmpty compares rarely used lists, slowly.
func sameOrEmpty[T any](a, b []T) bool {
	return len(a)+len(b) == 0 || equality.Semantic.DeepEqual(a, b)
}

func samePointed[T any](a, b *T, same func(a, b *T) bool) bool {
	return a == b || a != nil && b != nil && same(a, b)
}

func sameValue[T comparable](a, b *T) bool { return *a == *b }
