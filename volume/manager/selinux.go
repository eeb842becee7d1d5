package manager

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
)

// ErrLabels is wrapped by the error of a volume that would have to be mounted with several
// SELinux labels: the containers of the pod that use it do not have the same one.
var ErrLabels = errors.New("its containers have different SELinux labels")

// SELinux knows how the node labels files.
type SELinux interface {
	// FileLabel is the label of files that a container with these options, which may be
	// nil, has to have to be used by it. Empty means that the runtime chooses a part of
	// the container's own label, so that nobody can tell before. It answers from memory.
	FileLabel(o *v1.SELinuxOptions) (string, error)
}

// label is the SELinux label that a volume is to be mounted with; empty means none.
func (m *Manager) label(pod *v1.Pod, r *resolved) (string, error) {
	p, ok := r.plugin.(volume.LabelMounter)
	if m.cfg.SELinux == nil || !ok || r.spec.Block() || labelsFiles(pod) {
		return "", nil
	}
	can, err := p.MountsLabel(r.spec)
	if err == nil && can {
		r.asks, err = labelFor(pod, r.name, m.cfg.SELinux)
		m.tellLabel(pod, r, err)
	}
	if !ofOnePod(r.spec) {
		return "", nil
	}
	return r.asks, err
}

// LabelCheck is a look at the SELinux label that a volume has to have for a pod.
type LabelCheck struct {
	Plugin string
	Spec   *volume.Spec
	Result LabelResult
	// Enforced tells that it is a volume of one pod, which does not start if the label does
	// not fit. Others are labelled by the runtime.
	Enforced bool
}

// LabelResult is what a LabelCheck has shown.
type LabelResult string

// The results.
const (
	LabelFits     LabelResult = "fits"
	LabelUnknown  LabelResult = "unknown"  // nobody knows the label for a container's options
	LabelsDiffer  LabelResult = "differ"   // of the pod's containers: ErrLabels
	LabelConflict LabelResult = "conflict" // another pod has the volume with another label
)

func (m *Manager) tellLabel(pod *v1.Pod, r *resolved, err error) {
	if m.cfg.Metrics.OnLabel == nil {
		return
	}
	result := LabelUnknown
	switch {
	case errors.Is(err, ErrLabels):
		result = LabelsDiffer
	case err == nil:
		result = m.compareLabels(pod, r)
	}
	if result != "" {
		m.cfg.Metrics.OnLabel(LabelCheck{Plugin: r.plugin.Name(), Spec: r.spec, Result: result, Enforced: ofOnePod(r.spec)})
	}
}

// compareLabels looks at those who have a volume when a pod comes to it; empty means that
// there is nothing to tell any more.
func (m *Manager) compareLabels(pod *v1.Pod, r *resolved) LabelResult {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.world.pods[pod.UID]; p != nil && p.volumes[r.key()] != nil && p.volumes[r.key()].wanted {
		return ""
	}
	others := false
	if s := m.world.shared[volume.ID{Plugin: r.plugin.Name(), Volume: r.shared}]; s != nil && r.shared != "" {
		for v := range s.users {
			if v.wanted && v.pod.uid != pod.UID {
				if others = true; v.asks != r.asks {
					return LabelConflict
				}
			}
		}
	}
	if others || r.asks == "" {
		return ""
	}
	return LabelFits
}

// labelsFiles tells that a pod wants the files of its volumes labelled one by one.
func labelsFiles(pod *v1.Pod) bool {
	c := pod.Spec.SecurityContext
	return c != nil && c.SELinuxChangePolicy != nil && *c.SELinuxChangePolicy == v1.SELinuxChangePolicyRecursive
}

// labelFor is the label that all containers need which mount a volume.
func labelFor(pod *v1.Pod, name string, host SELinux) (label string, err error) {
	first := true
	for _, c := range containers(pod) {
		if !slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == name }) {
			continue
		}
		own, err := host.FileLabel(seLinuxOptions(pod, c.Security))
		switch {
		case err != nil:
			return "", err
		case !first && own != label:
			return "", fmt.Errorf("%w: %q and %q", ErrLabels, label, own)
		}
		label, first = own, false
	}
	return label, nil
}

// seLinuxOptions are a container's own, or the pod's.
func seLinuxOptions(pod *v1.Pod, c *v1.SecurityContext) *v1.SELinuxOptions {
	switch {
	case c != nil && c.SELinuxOptions != nil:
		return c.SELinuxOptions
	case pod.Spec.SecurityContext != nil:
		return pod.Spec.SecurityContext.SELinuxOptions
	}
	return nil
}

// first is the user of a shared volume for which it is staged: one that has it, or else
// the one that has wanted it for the longest time.
func (s *sharedState) first() (first *volumeState) {
	for v := range s.users {
		if v.wanted && (first == nil || v.before(first)) {
			first = v
		}
	}
	return first
}

func (v *volumeState) before(other *volumeState) bool {
	if has := v.state != StateNotMounted; has != (other.state != StateNotMounted) {
		return has
	}
	return cmp.Or(v.requestedAt.Compare(other.requestedAt), cmp.Compare(v.pod.uid, other.pod.uid)) < 0
}

// mislabelled tells that a volume may be staged, and not with the label that its next user
// needs. Of one that was found on disk nobody knows the label.
func (s *sharedState) mislabelled(v *volumeState) bool {
	return v.state == StateNotMounted && s.stage != StateNotMounted && s.label != v.label
}

// nextRelabel is what is to be done for a shared volume with the wrong label.
func (s *sharedState) nextRelabel(w *world, v *volumeState, now time.Time) step {
	for other := range s.users {
		if other.op != nil || other.state != StateNotMounted {
			return step{why: fmt.Sprintf("pod %s, which has the volume with another SELinux label", other.pod.name())}
		}
	}
	if !w.mayUnstage(s.id.Plugin) {
		return step{why: "all pods of the node to be known"}
	}
	return s.after(doUnstage, now)
}
