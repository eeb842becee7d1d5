package manager

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/volume"
)

// Reasons of events, equal to upstream's.
const (
	reasonFailedMount         = "FailedMount"
	reasonFailedMapVolume     = "FailedMapVolume"
	reasonFailedUnmount       = "FailedUnMount"
	reasonMapped              = "SuccessfulMountVolume"
	reasonResizeFailed        = "VolumeResizeFailed"
	reasonFSResizeFailed      = "FileSystemResizeFailed"
	reasonFSResized           = "FileSystemResizeSuccessful"
	reasonPermissionsChanging = "VolumePermissionChangeInProgress"
)

// reasonSubPathNotFound is the reason of an event that upstream lacks: a container mounts an
// empty folder in place of a file of its volume.
const reasonSubPathNotFound = "SubPathNotFound"

// recordOutcome records events for a completed operation. Failures before a pod starts have
// none; Prepare returns them.
func (m *Manager) recordOutcome(op *operation, out *outcome, firstFailure bool) {
	switch {
	case op.kind == doExpand:
		m.recordExpansion(op, out, firstFailure)
	case op.kind != doMount:
	case out.err == nil && op.block && !op.again:
		m.event(op.pod, v1.EventTypeNormal, reasonMapped, fmt.Sprintf("volume %q is mapped", op.unmount.Name))
	case out.err != nil && op.again && firstFailure && !out.ended:
		m.event(op.pod, v1.EventTypeWarning, reasonFailedMount, failure(op.kind, op.block, op.unmount.Name, out.err))
	}
}

// recordExpansion records events about the pod and the claim. There are none for an expansion
// without effect, which mostly is the first one after a mount, or for one that was not
// attempted.
func (m *Manager) recordExpansion(op *operation, out *outcome, firstFailure bool) {
	err := out.err
	reason, kind, text := reasonFSResized, v1.EventTypeNormal, fmt.Sprintf("volume %q was expanded to %d bytes", op.unmount.Name, op.size)
	switch {
	case op.pod == nil, err == nil && !out.grown, err != nil && (!firstFailure || out.ended || out.transient()):
		return
	case err != nil && op.grown == 0:
		reason, kind, text = reasonFSResizeFailed, v1.EventTypeWarning, err.Error()
	case err != nil:
		reason, kind, text = reasonResizeFailed, v1.EventTypeWarning, err.Error()
	}
	m.event(op.pod, kind, reason, text)
	if p := op.spec.Persistent; p != nil && p.Spec.ClaimRef != nil {
		ref := *p.Spec.ClaimRef
		ref.Kind, ref.APIVersion = "PersistentVolumeClaim", "v1"
		m.cfg.Event(ref, kind, reason, text)
	}
}

// SubPathCreated records an event if a missing sub path was created in a configMap, secret,
// downwardAPI or projected volume. Containers cannot write to these, so the path most likely names a
// key that the object lacks. Use it as subpath.Config.OnCreated.
func (m *Manager) SubPathCreated(s volume.SubPath) {
	m.mu.Lock()
	var pod *v1.Pod
	if p := m.reconciler.pods[s.PodUID]; p != nil {
		pod = p.pod
	}
	m.mu.Unlock()
	if pod == nil || !slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return v.Name == s.Volume && (v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil)
	}) {
		return
	}
	m.event(pod, v1.EventTypeWarning, reasonSubPathNotFound,
		fmt.Sprintf("volume %q has no file for subPath %q: container %q mounts an empty folder instead", s.Volume, s.Path, s.Container))
}

// ownershipProgress returns a function that records the progress of a change of owners. Its event
// has the volume's folder from the pod's UID on.
func (m *Manager) ownershipProgress(pod *v1.Pod, dir string) func(int) {
	if at := strings.Index(dir, string(pod.UID)); at >= 0 {
		dir = dir[at:]
	}
	return func(entries int) {
		m.event(pod, v1.EventTypeWarning, reasonPermissionsChanging,
			fmt.Sprintf("Setting volume ownership for %s, processed %d files.", dir, entries))
	}
}

func (m *Manager) warn(pod *v1.Pod, err error) {
	m.event(pod, v1.EventTypeWarning, reasonFailedMount, err.Error())
}

func (m *Manager) event(pod *v1.Pod, eventtype, reason, message string) {
	m.cfg.Event(podfacts.Reference(pod), eventtype, reason, message)
}
