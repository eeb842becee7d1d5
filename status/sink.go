package status

import (
	"context"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

var (
	// ErrNotFound is wrapped by a Sink's error if the pod does not exist.
	ErrNotFound = errors.New("no such pod")
	// ErrConflict is wrapped by a Sink's error if it wrote no status, because the pod has another
	// UID or was changed concurrently.
	ErrConflict = errors.New("conflict")
)

// Ref identifies a pod in a Sink. For a static pod with a mirror pod it identifies the mirror
// pod.
type Ref struct {
	Namespace, Name string
	UID             types.UID
}

// String returns "namespace/name(uid)".
func (r Ref) String() string { return r.Namespace + "/" + r.Name + "(" + string(r.UID) + ")" }

// Sink is a destination of statuses: an API server, a file, an endpoint. Package statustest has
// an in-memory Sink and a suite that tests others.
//
// A Sink must be safe for concurrent use; calls for one pod never overlap. Each call has a
// deadline. A call that ignores it delays only its own pod. Every call may be repeated, even
// after a failure with an unknown outcome. A Sink must not change its arguments. The caller may
// keep the results; neither side changes them.
//
// An error wraps ErrNotFound or ErrConflict if one of them applies. After every other error the
// outcome is unknown, and the call is retried later.
type Sink interface {
	// Get returns the current pod of that namespace and name, not a cached one. Its UID may
	// differ from ref. The error is ErrNotFound if there is no such pod.
	Get(ctx context.Context, ref Ref) (*v1.Pod, error)

	// Patch changes the status of a pod where old and new differ, and returns the changed pod,
	// with its resource version if it has one. Fields are replaced as a whole, except conditions
	// (merged by type) and host and pod addresses (merged by IP): elements in neither list stay.
	// Elements that are equal in both may be written or left alone.
	//
	// old is the last status that the sink is believed to have. Neither old nor new contains data
	// of other components: their conditions, the statuses of resource claims, the nominated node.
	// So new is not the whole status. A sink that stores whole statuses uses Patched.
	//
	// Patch must change only a pod with the UID of ref. The error is ErrNotFound if there is no
	// pod of that name, and ErrConflict if it has another UID or the sink could not decide.
	Patch(ctx context.Context, ref Ref, old, new *v1.PodStatus) (*v1.Pod, error)

	// Delete removes a pod at once, without a grace period, if it has the UID of ref. It is
	// called for a pod with a deletion request after everything was released and its last status
	// was accepted. The error is ErrNotFound if there is no such pod, and ErrConflict if it has
	// another UID.
	Delete(ctx context.Context, ref Ref) error
}

// Patched returns current with the changes from old to new. It implements Sink.Patch for a sink
// that stores whole statuses. It does not change its arguments; the result shares memory with
// them.
func Patched(current, old, new *v1.PodStatus) *v1.PodStatus {
	out := *current
	applyField(&out.ObservedGeneration, old.ObservedGeneration, new.ObservedGeneration)
	applyField(&out.Phase, old.Phase, new.Phase)
	applyField(&out.Reason, old.Reason, new.Reason)
	applyField(&out.Message, old.Message, new.Message)
	applyField(&out.NominatedNodeName, old.NominatedNodeName, new.NominatedNodeName)
	applyField(&out.HostIP, old.HostIP, new.HostIP)
	applyField(&out.PodIP, old.PodIP, new.PodIP)
	applyField(&out.QOSClass, old.QOSClass, new.QOSClass)
	applyField(&out.Resize, old.Resize, new.Resize)
	applyField(&out.StartTime, old.StartTime, new.StartTime)
	applyField(&out.InitContainerStatuses, old.InitContainerStatuses, new.InitContainerStatuses)
	applyField(&out.ContainerStatuses, old.ContainerStatuses, new.ContainerStatuses)
	applyField(&out.EphemeralContainerStatuses, old.EphemeralContainerStatuses, new.EphemeralContainerStatuses)
	applyField(&out.ResourceClaimStatuses, old.ResourceClaimStatuses, new.ResourceClaimStatuses)
	applyField(&out.ExtendedResourceClaimStatus, old.ExtendedResourceClaimStatus, new.ExtendedResourceClaimStatus)
	applyField(&out.NodeAllocatableResourceClaimStatuses, old.NodeAllocatableResourceClaimStatuses, new.NodeAllocatableResourceClaimStatuses)
	applyField(&out.AllocatedResources, old.AllocatedResources, new.AllocatedResources)
	applyField(&out.Resources, old.Resources, new.Resources)
	applyField(&out.VolumeHealth, old.VolumeHealth, new.VolumeHealth)
	applyList(&out.Conditions, old.Conditions, new.Conditions, func(c *v1.PodCondition) string { return string(c.Type) })
	applyList(&out.HostIPs, old.HostIPs, new.HostIPs, func(ip *v1.HostIP) string { return ip.IP })
	applyList(&out.PodIPs, old.PodIPs, new.PodIPs, func(ip *v1.PodIP) string { return ip.IP })
	return &out
}

func applyField[T any](current *T, old, new T) {
	if !equality.Semantic.DeepEqual(old, new) {
		*current = new
	}
}

// applyList applies the changed elements and keeps the unchanged ones. The elements of new
// follow, in their order, after the elements that are in neither list.
func applyList[T any](current *[]T, old, new []T, key func(*T) string) {
	if equality.Semantic.DeepEqual(old, new) {
		return
	}
	at := func(list []T, k string) int {
		return slices.IndexFunc(list, func(e T) bool { return key(&e) == k })
	}
	var out []T
	for i := range *current {
		if k := key(&(*current)[i]); at(old, k) < 0 && at(new, k) < 0 {
			out = append(out, (*current)[i])
		}
	}
	for i := range new {
		k := key(&new[i])
		was, is := at(old, k), at(*current, k)
		switch {
		case was < 0 || !equality.Semantic.DeepEqual(old[was], new[i]):
			out = append(out, new[i])
		case is >= 0:
			out = append(out, (*current)[is])
		}
	}
	*current = out
}
