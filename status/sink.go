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
	// ErrNotFound is wrapped by a Sink's error when it has no pod of that name.
	ErrNotFound = errors.New("no such pod")
	// ErrConflict is wrapped by a Sink's error when nothing was written, since
	// the pod of that name has another UID, or was changed meanwhile.
	ErrConflict = errors.New("conflict")
)

// Ref names a pod at a Sink. For a static pod with a mirror it is the mirror's.
type Ref struct {
	Namespace, Name string
	UID             types.UID
}

// String is "namespace/name(uid)".
func (r Ref) String() string { return r.Namespace + "/" + r.Name + "(" + string(r.UID) + ")" }

// Sink is where statuses are written to: an API server, a file, an endpoint.
// Package statustest has one in memory, and a suite that tests others.
//
// Calls come from several goroutines, for one pod never two at a time. Each has a
// deadline; one that ignores it holds up its own pod only. Every call may be
// repeated, also when it failed in a way that leaves open whether it took effect.
// Nothing of the arguments may be changed. What is returned is the caller's to
// keep; nobody changes it.
//
// An error wraps ErrNotFound or ErrConflict where these say what happened. Every
// other error means that nothing is known of the outcome; the call is repeated
// later.
type Sink interface {
	// Get returns the pod of that namespace and name as it is now, not as a cache
	// has it. It may have another UID than ref. ErrNotFound: there is none.
	Get(ctx context.Context, ref Ref) (*v1.Pod, error)

	// Patch changes the status of a pod where old and new differ, and returns the
	// pod as it is then, with its resource version if it has one. Fields are
	// replaced as a whole, but conditions are told apart by type, host and pod
	// addresses by IP: elements in neither list stay as they are. Those that are
	// the same in both may be left as they are or written, as suits the sink.
	//
	// old is what the sink was last known to have. Neither old nor new holds what
	// others decide: their conditions, the statuses of resource claims, the
	// nominated node. So a sink must not take new for the whole status; Apply does
	// what is needed for one that keeps statuses as a whole.
	//
	// Only a pod with the UID of ref may be changed. ErrNotFound: there is no pod
	// of that name. ErrConflict: it has another UID, or the sink could not decide.
	Patch(ctx context.Context, ref Ref, old, new *v1.PodStatus) (*v1.Pod, error)

	// Delete removes a pod at once, with no grace period, if it has the UID of
	// ref. It is called for a pod that was to be deleted, of which nothing is left
	// and whose last status was accepted. ErrNotFound: there is none any more.
	// ErrConflict: it has another UID.
	Delete(ctx context.Context, ref Ref) error
}

// Apply is what a patch from old to new makes of current: Sink.Patch for a sink
// that keeps statuses as a whole. Nothing of the arguments is changed; the result
// shares memory with them.
func Apply(current, old, new *v1.PodStatus) *v1.PodStatus {
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

// applyList changes the elements that differ, and leaves the others alone. Those
// of new come in the order of new, after the ones that are in neither list.
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
