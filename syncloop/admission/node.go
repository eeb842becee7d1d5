package admission

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/syncloop"
)

// OtherNode returns the constraints of a pod that the node's labels and name do not satisfy, one
// error per field. It is pure. The caller's Admitter rejects the pod with the errors, or makes it
// wait while its Node may be outdated.
func OtherNode(pod *v1.Pod, n *v1.Node) []error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		if want, ok := n.Labels[key]; !ok || want != pod.Spec.NodeSelector[key] {
			errs = append(errs, fmt.Errorf("spec.nodeSelector[%s]: the node does not have this label with the value %q", key, pod.Spec.NodeSelector[key]))
		}
	}
	const field = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		selector, err := nodeaffinity.NewNodeSelector(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", field, err))
		case !selector.Match(n):
			errs = append(errs, fmt.Errorf("%s: does not match this node", field))
		}
	}
	return errs
}

// Tolerating returns an Admitter that rejects pods that do not tolerate the node's taints with the
// effect NoExecute (TaintToleration). It ignores taints for static pods, and ignores NoSchedule,
// which concerns schedulers only. While node returns nil, pods wait.
func Tolerating(node func() *v1.Node) syncloop.Admitter {
	return syncloop.AdmitterFunc(func(pod *v1.Pod, _ []*v1.Pod) error {
		n := node()
		if n == nil {
			return errors.New("the Node object is not available yet")
		}
		executes := func(t *v1.Taint) bool { return t.Effect == v1.TaintEffectNoExecute }
		_, found := corev1.FindMatchingUntoleratedTaint(klog.Logger{}, n.Spec.Taints, pod.Spec.Tolerations, executes, true)
		if found && !podfacts.IsStatic(pod) {
			return syncloop.Reject("TaintToleration", "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate")
		}
		return nil
	})
}

// System returns an Admitter that rejects pods for another operating system than goos according to
// their spec (PodOSNotSupported) or their label (PodOSSelectorNodeLabelDoesNotMatch).
func System(goos string) syncloop.Admitter {
	return syncloop.AdmitterFunc(func(pod *v1.Pod, _ []*v1.Pod) error {
		if label, ok := pod.Labels[v1.LabelOSStable]; ok && label != goos {
			return syncloop.Reject("PodOSSelectorNodeLabelDoesNotMatch", "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label")
		}
		if system := pod.Spec.OS; system != nil && system.Name != "" && string(system.Name) != goos {
			return syncloop.Reject("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
		}
		return nil
	})
}
