package manager

import (
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
)

// annotationGID names the group that a PersistentVolume's files belong to.
const annotationGID = "pv.beta.kubernetes.io/gid"

// ExtraGroups are the groups that the pod's containers need beside those in its spec, to
// use the files of its PersistentVolumes: what their annotation pv.beta.kubernetes.io/gid
// says. They are sorted. It is request.Inputs.ExtraGroups, and answers from memory.
func (m *Manager) ExtraGroups(pod *v1.Pod) (groups []int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.reconciler.pods[pod.UID]
	if p == nil {
		return nil
	}
	for _, v := range p.wanted() {
		if gid, ok := gidOf(v.spec); ok && !hasGroup(pod, gid) {
			groups = append(groups, gid)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// gidOf is the group that a persistent volume names. What is no number names none.
func gidOf(spec *volume.Spec) (int64, bool) {
	if spec.Persistent == nil {
		return 0, false
	}
	gid, err := strconv.ParseInt(spec.Persistent.Annotations[annotationGID], 10, 64)
	return gid, err == nil
}

func hasGroup(pod *v1.Pod, gid int64) bool {
	c := pod.Spec.SecurityContext
	return c != nil && slices.Contains(c.SupplementalGroups, gid)
}
