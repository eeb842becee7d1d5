package writer

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// observed records a pod as seen at the sink. It may be older than the base.
func (s *slot) observed(obj *v1.Pod, now time.Time) {
	if s.content == removed {
		return
	}
	if s.mirror && mirrorOf(obj, s.pod) && obj.DeletionTimestamp == nil {
		s.retarget(obj)
	}
	if obj.UID != s.ref.UID {
		return
	}
	s.apply(podSeen)
	if obj.DeletionTimestamp != nil && !s.deleting {
		s.deleting = true
		s.apply(deletionSeen)
	}
	if s.base == nil {
		return // read by the next write
	}
	newer, ordered := newerVersion(obj.ResourceVersion, s.base.version)
	if ordered && !newer {
		return
	}
	before := s.base
	s.setBase(obj)
	switch current := s.base.status; {
	case podstatus.Equal(current, before.status):
		s.base.status = before.status
	case s.kept != nil && podstatus.Equal(current, s.kept):
	case !ordered:
		s.base = nil // obj may be outdated
		s.recheckLater(drifted, now)
	default:
		s.recheckLater(drifted, now)
	}
}

// refresh updates the pod and, for a static pod, its mirror, which can be recreated at any time.
func (s *slot) refresh(f facts) {
	if f.pod != nil {
		s.pod = f.pod
		s.deleting = s.deleting || f.pod.DeletionTimestamp != nil
	}
	var uid types.UID
	if f.mirror != nil {
		uid = f.mirror.UID
	}
	if last := s.lastMirror; s.mirror && uid != last {
		s.lastMirror = uid
		if uid != "" || s.ref.UID == last {
			s.retarget(f.mirror)
		}
	}
}

// retarget selects another mirror, which has no status yet, or none.
func (s *slot) retarget(mirror *v1.Pod) {
	var ref status.Ref
	if mirror != nil {
		ref = status.Ref{Namespace: mirror.Namespace, Name: mirror.Name, UID: mirror.UID}
	}
	if ref == s.ref {
		return
	}
	s.ref, s.base, s.seen, s.kept = ref, nil, phaseReady{}, nil
	s.failures, s.err = 0, nil
	s.apply(mirrorChanged)
}

// mirrorOf reports whether obj is the mirror of this version of a static pod.
func mirrorOf(obj, static *v1.Pod) bool {
	hash, ok := obj.Annotations[podfacts.ConfigMirror]
	return ok && obj.Namespace == static.Namespace && obj.Name == static.Name &&
		(static.Annotations[podfacts.ConfigHash] == "" || hash == static.Annotations[podfacts.ConfigHash])
}
