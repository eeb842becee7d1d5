package status

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg"
)

// Compute works out a pod's status. See the package documentation.
func Compute(in Input) Result {
	b := newBuilder(in)
	s := v1.PodStatus{
		ObservedGeneration: max(in.Pod.Generation, b.old.ObservedGeneration),
		StartTime:          b.startTime(),
		QOSClass:           b.qosClass(),
		// Others own these; they are passed on so that a caller who writes the
		// whole status does not wipe them out.
		ResourceClaimStatuses:                b.api.ResourceClaimStatuses,
		ExtendedResourceClaimStatus:          b.api.ExtendedResourceClaimStatus,
		NodeAllocatableResourceClaimStatuses: b.api.NodeAllocatableResourceClaimStatuses,
	}
	b.decide(&s)
	if b.restartAll && podfacts.IsTerminalPhase(s.Phase) {
		// A pod that has just ended restarts nothing: its containers stay as
		// they are.
		b.restartAll = false
		b.decide(&s)
	}
	restarting := b.conditions(&s)
	b.addresses(&s)
	slices.Sort(b.probeNow)
	return Result{
		Status:              s,
		RestartAll:          restarting,
		ProbeNow:            b.probeNow,
		HostIPFamilyChanged: b.hostIPFamilyChanged(),
	}
}

// builder holds what all steps of one Compute look at.
type builder struct {
	in Input
	// old is the previous status, api the API server's: private copies.
	old, api *v1.PodStatus
	// instances are the containers of the runtime by name, newest first.
	instances map[string][]*pleg.ContainerStatus
	// regularRan tells that a regular container was at least created, which
	// happens only after the plain init containers succeeded.
	regularRan bool
	// restartAll tells that all containers are being started anew.
	restartAll bool
	// probeNow is Result.ProbeNow.
	probeNow []string
}

func newBuilder(in Input) *builder {
	b := &builder{in: in, api: in.API, old: in.Previous, instances: map[string][]*pleg.ContainerStatus{}}
	if b.api == nil {
		b.api = &in.Pod.Status
	}
	if b.old == nil {
		b.old = b.api
	}
	b.api, b.old = b.api.DeepCopy(), b.old.DeepCopy()
	if in.Observed != nil {
		for i := range in.Observed.Containers {
			c := &in.Observed.Containers[i]
			b.instances[c.Name] = append(b.instances[c.Name], c)
		}
	}
	for i := range in.Pod.Spec.Containers {
		for _, instance := range b.instances[in.Pod.Spec.Containers[i].Name] {
			b.regularRan = b.regularRan || instance.State != pleg.StateUnknown
		}
	}
	b.restartAll = b.restartAllTriggered()
	return b
}

// observed tells that somebody has looked at the runtime.
func (b *builder) observed() bool { return b.in.Observed != nil }

func (b *builder) newest(name string) *pleg.ContainerStatus {
	if all := b.instances[name]; len(all) > 0 {
		return all[0]
	}
	return nil
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

func (b *builder) decide(s *v1.PodStatus) {
	b.probeNow = nil
	b.containerStatuses(s)
	b.decidePhase(s)
	b.otherConditions(s)
	if b.in.Override == nil {
		return
	}
	phase, reason, message := s.Phase, s.Reason, s.Message
	b.in.Override(s)
	if b.ended() {
		s.Phase, s.Reason, s.Message = phase, reason, message
	}
}

// ended tells that the pod's end has been reported.
func (b *builder) ended() bool {
	return podfacts.IsTerminalPhase(b.api.Phase) || podfacts.IsTerminalPhase(b.old.Phase)
}

// decidePhase sets phase, reason and message. An end, once reported, stays: the
// API server's word counts first, then the previous status.
func (b *builder) decidePhase(s *v1.PodStatus) {
	s.Phase = phase(b.in.Pod, s, b.in.Terminal, b.hasActive())
	if !b.observed() && b.old.Phase != "" {
		s.Phase = b.old.Phase
	}
	s.Reason, s.Message = "", ""
	switch {
	case podfacts.IsTerminalPhase(b.api.Phase):
		s.Phase = b.api.Phase
	case podfacts.IsTerminalPhase(b.old.Phase):
		s.Phase = b.old.Phase
	}
	switch {
	case b.in.Fail != nil && !b.ended():
		s.Phase, s.Reason, s.Message = v1.PodFailed, b.in.Fail.Reason, b.in.Fail.Message
	case s.Phase == b.old.Phase:
		s.Reason, s.Message = b.old.Reason, b.old.Message
		if s.Reason == "" {
			s.Reason = b.api.Reason
		}
		if s.Message == "" {
			s.Message = b.api.Message
		}
	case s.Phase == b.api.Phase:
		s.Reason, s.Message = b.api.Reason, b.api.Message
	}
}

// hasActive tells that a regular container exists in the current sandbox.
func (b *builder) hasActive() bool {
	if !b.observed() {
		return false
	}
	for _, c := range b.in.Observed.Active() {
		for i := range b.in.Pod.Spec.Containers {
			if b.in.Pod.Spec.Containers[i].Name == c.Name {
				return true
			}
		}
	}
	return false
}
