package manager

import (
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
)

const annotationGID = "pv.beta.kubernetes.io/gid"

// ExtraGroups returns the groups that the pod's containers need for its PersistentVolumes,
// besides the groups in its spec: the values of the annotation pv.beta.kubernetes.io/gid. They
// are sorted. It implements request.Inputs.ExtraGroups and does not block.
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

// gidOf returns the group of a persistent volume. It ignores values that are no numbers.
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
