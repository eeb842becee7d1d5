package admission

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/syncloop"
)

// OtherNode lists what a pod asks of its node and this one does not have, by its labels and
// its name: one error per field. It is pure.
func OtherNode(pod *v1.Pod, n *v1.Node) []error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		if want, ok := n.Labels[key]; !ok || want != pod.Spec.NodeSelector[key] {
			errs = append(errs, fmt.Errorf("spec.nodeSelector[%s]: this node is not labelled %q", key, pod.Spec.NodeSelector[key]))
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

// Matching returns an Admitter that refuses pods which ask for another node (NodeAffinity).
// node is asked at each pod; while it is nil, pods are held back.
func Matching(node func() *v1.Node) syncloop.Admitter {
	return onNode(node, func(pod *v1.Pod, n *v1.Node) error {
		if err := errors.Join(OtherNode(pod, n)...); err != nil {
			return syncloop.Reject("NodeAffinity", "%v", err)
		}
		return nil
	})
}

// Tolerating returns an Admitter that refuses pods which the node is to be rid of: those
// that do not tolerate its taints with the effect NoExecute (TaintToleration). Static pods
// have no taints to heed, and NoSchedule is a scheduler's matter.
func Tolerating(node func() *v1.Node) syncloop.Admitter {
	return onNode(node, func(pod *v1.Pod, n *v1.Node) error {
		if taint := Untolerated(pod, n.Spec.Taints); taint != nil {
			return syncloop.Reject("TaintToleration", "the node has the taint %s, which spec.tolerations do not have", taint.ToString())
		}
		return nil
	})
}

// Untolerated is the first taint with the effect NoExecute that a pod does not tolerate; nil
// for a static pod. It is pure.
func Untolerated(pod *v1.Pod, taints []v1.Taint) *v1.Taint {
	if podfacts.IsStatic(pod) {
		return nil
	}
	for i := range taints {
		tolerated := slices.ContainsFunc(pod.Spec.Tolerations, func(t v1.Toleration) bool {
			return t.ToleratesTaint(klog.Logger{}, &taints[i], true)
		})
		if taints[i].Effect == v1.TaintEffectNoExecute && !tolerated {
			return &taints[i]
		}
	}
	return nil
}

func onNode(node func() *v1.Node, admit func(pod *v1.Pod, n *v1.Node) error) syncloop.Admitter {
	return syncloop.AdmitterFunc(func(pod *v1.Pod, _ []*v1.Pod) error {
		n := node()
		if n == nil {
			return errors.New("the Node is not known yet")
		}
		return admit(pod, n)
	})
}

// System returns an Admitter that refuses pods for another operating system than goos, as
// their spec (PodOSNotSupported) or their own label says (PodOSSelectorNodeLabelDoesNotMatch).
func System(goos string) syncloop.Admitter {
	return syncloop.AdmitterFunc(func(pod *v1.Pod, _ []*v1.Pod) error {
		if label, ok := pod.Labels[v1.LabelOSStable]; ok && label != goos {
			return syncloop.Reject("PodOSSelectorNodeLabelDoesNotMatch", "metadata.labels[%s]: it is for %s, and this node runs %s", v1.LabelOSStable, label, goos)
		}
		if system := pod.Spec.OS; system != nil && system.Name != "" && string(system.Name) != goos {
			return syncloop.Reject("PodOSNotSupported", "spec.os.name: it is for %s, and this node runs %s", system.Name, goos)
		}
		return nil
	})
}
