package status

import (
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// Compute returns the status of a pod. See the package documentation. It returns an error if
// Input.Pod is nil, or if Input.Observed belongs to a pod with another UID.
func Compute(in Input) (Result, error) {
	switch {
	case in.Pod == nil:
		return Result{}, errors.New("status: Input.Pod is required")
	case in.Observed != nil && in.Observed.UID != "" && in.Observed.UID != in.Pod.UID:
		return Result{}, fmt.Errorf("status: Input.Observed: UID is %q, the UID of Input.Pod is %q", in.Observed.UID, in.Pod.UID)
	}
	if in.Now.IsZero() {
		in.Now = time.Now()
	}
	b := newBuilder(in)
	s := v1.PodStatus{
		ObservedGeneration: max(in.Pod.Generation, b.old.ObservedGeneration),
		StartTime:          b.startTime(),
		QOSClass:           b.qosClass(),
	}
	b.copyClaims(&s)
	b.decide(&s)
	if b.restartAll && podfacts.IsTerminalPhase(s.Phase) {
		// A pod that has just ended does not restart its containers. Their statuses stay as they
		// are.
		b.restartAll = false
		b.decide(&s)
	}
	restarting := b.conditions(&s)
	b.addresses(&s)
	b.podResources(&s)
	slices.Sort(b.probeNow)
	return Result{
		Status:              s,
		RestartAll:          restarting,
		ProbeNow:            b.probeNow,
		HostIPFamilyChanged: b.hostIPFamilyChanged(),
	}, nil
}

// builder is the state of one Compute call. Its inputs belong to the caller and are read-only;
// the result contains copies.
type builder struct {
	in Input
	// old is the previous status, api the status of the API server.
	old, api *v1.PodStatus
	// regularRan is true if a regular container exists, which implies that the plain init
	// containers succeeded.
	regularRan bool
	restartAll bool
	// overridden is true if the phase of old is Failed because of Override, and so not final.
	overridden bool
	// The container statuses point into cells and mounts.
	cells    []cell
	mounts   []v1.VolumeMountStatus
	modes    *[2]v1.RecursiveReadOnlyMode
	probeNow []string
}

func newBuilder(in Input) *builder {
	b := &builder{in: in, api: in.API, old: in.Previous}
	if b.api == nil {
		b.api = &in.Pod.Status
	}
	if b.old == nil {
		b.old = b.api
	}
	for i := range in.Pod.Spec.Containers {
		newest, before := b.instances(in.Pod.Spec.Containers[i].Name)
		for _, instance := range []*observed.Container{newest, before} {
			b.regularRan = b.regularRan || instance != nil && instance.State != observed.StateUnknown
		}
	}
	b.restartAll = b.restartAllTriggered()
	b.overridden = b.failedByOverride()
	return b
}

func (b *builder) observed() bool { return b.in.Observed != nil }

// instances returns the newest instance of a container and the instance before it, or nil.
func (b *builder) instances(name string) (newest, before *observed.Container) {
	if !b.observed() {
		return nil, nil
	}
	for i := range b.in.Observed.Containers {
		switch c := &b.in.Observed.Containers[i]; {
		case c.Name != name:
		case newest == nil:
			newest = c
		default:
			return newest, c
		}
	}
	return newest, nil
}

func (b *builder) newest(name string) *observed.Container {
	newest, _ := b.instances(name)
	return newest
}

func (b *builder) startTime() *metav1.Time {
	for _, s := range []*v1.PodStatus{b.old, b.api} {
		if s.StartTime != nil {
			return s.StartTime.DeepCopy()
		}
	}
	now := metav1.NewTime(b.in.Now)
	return &now
}

func (b *builder) qosClass() v1.PodQOSClass {
	for _, s := range []*v1.PodStatus{b.old, b.api} {
		if s.QOSClass != "" {
			return s.QOSClass
		}
	}
	return podfacts.QOSClass(b.in.Pod)
}

// copyClaims copies the claim statuses, which other components own, so that a caller who writes
// the whole status does not erase them.
func (b *builder) copyClaims(s *v1.PodStatus) {
	claims := v1.PodStatus{
		ResourceClaimStatuses:                b.api.ResourceClaimStatuses,
		ExtendedResourceClaimStatus:          b.api.ExtendedResourceClaimStatus,
		NodeAllocatableResourceClaimStatuses: b.api.NodeAllocatableResourceClaimStatuses,
	}
	var own v1.PodStatus
	claims.DeepCopyInto(&own)
	s.ResourceClaimStatuses = own.ResourceClaimStatuses
	s.ExtendedResourceClaimStatus = own.ExtendedResourceClaimStatus
	s.NodeAllocatableResourceClaimStatuses = own.NodeAllocatableResourceClaimStatuses
}

// decide sets the fields that depend on restartAll.
func (b *builder) decide(s *v1.PodStatus) {
	b.probeNow = nil
	b.containerStatuses(s)
	b.decidePhase(s)
	b.otherConditions(s)
	b.override(s)
	if b.in.Terminal && podfacts.IsTerminalPhase(s.Phase) {
		podstatus.EndContainers(b.in.Pod, b.api, s)
		keepLast(s.InitContainerStatuses, b.old.InitContainerStatuses)
		keepLast(s.ContainerStatuses, b.old.ContainerStatuses)
	}
}
