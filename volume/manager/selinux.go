package manager

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/volume"
)

// ErrLabels is wrapped by the error for a volume whose containers in one pod need different
// SELinux labels.
var ErrLabels = errors.New("its containers have different SELinux labels")

func (m *Manager) label(pod *v1.Pod, r *resolved) (string, error) {
	p, ok := r.plugin.(volume.LabelMounter)
	if m.cfg.SELinux == nil || !ok || r.spec.Block() || labelsFiles(pod) {
		return "", nil
	}
	can, err := p.MountsLabel(r.spec)
	if err == nil && can {
		r.needsLabel, err = labelFor(pod, r.name, m.cfg.SELinux)
		m.reportLabel(pod, r, err)
	}
	if !ofOnePod(r.spec) {
		return "", nil
	}
	return r.needsLabel, err
}

func (m *Manager) reportLabel(pod *v1.Pod, r *resolved, err error) {
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

// compareLabels compares the label of a new user with the labels of the other users. It returns
// "" if there is no new result.
func (m *Manager) compareLabels(pod *v1.Pod, r *resolved) LabelResult {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.reconciler.pods[pod.UID]; p != nil && p.volumes[r.key()] != nil && p.volumes[r.key()].wanted {
		return ""
	}
	others := false
	if s := m.reconciler.shared[volume.ID{Plugin: r.plugin.Name(), Volume: r.shared}]; s != nil && r.shared != "" {
		for v := range s.users {
			if v.wanted && v.pod.uid != pod.UID {
				if others = true; v.needsLabel != r.needsLabel {
					return LabelConflict
				}
			}
		}
	}
	if others || r.needsLabel == "" {
		return ""
	}
	return LabelFits
}

// labelsFiles reports whether the pod requires labels on single files (seLinuxChangePolicy).
func labelsFiles(pod *v1.Pod) bool {
	c := pod.Spec.SecurityContext
	return c != nil && c.SELinuxChangePolicy != nil && *c.SELinuxChangePolicy == v1.SELinuxChangePolicyRecursive
}

// labelFor returns the label that all containers with the volume need.
func labelFor(pod *v1.Pod, name string, host SELinux) (label string, err error) {
	first := true
	for c := range podfacts.Containers(pod) {
		if !slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == name }) {
			continue
		}
		own, err := host.FileLabel(seLinuxOptions(pod, c.SecurityContext))
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

// seLinuxOptions returns the container's options, or the pod's.
func seLinuxOptions(pod *v1.Pod, c *v1.SecurityContext) *v1.SELinuxOptions {
	switch {
	case c != nil && c.SELinuxOptions != nil:
		return c.SELinuxOptions
	case pod.Spec.SecurityContext != nil:
		return pod.Spec.SecurityContext.SELinuxOptions
	}
	return nil
}
