package node

import (
	"maps"
	"runtime"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	nodestatus "github.com/podwright/podwright/status/node"
)

const (
	attachAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"
	// uninitializedTaint keeps pods away until an external cloud provider has initialised the node.
	uninitializedTaint = "node.cloudprovider.kubernetes.io/uninitialized"
)

// wanted returns the node that the agent creates, without its status.
func (c *Config) wanted() *v1.Node {
	labels := map[string]string{
		v1.LabelHostname:      c.Hostname,
		v1.LabelOSStable:      runtime.GOOS,
		v1.LabelArchStable:    runtime.GOARCH,
		kubeletapis.LabelOS:   runtime.GOOS,
		kubeletapis.LabelArch: runtime.GOARCH,
	}
	maps.Copy(labels, c.Labels)
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: c.Name, Labels: labels, Annotations: map[string]string{}},
		Spec:       v1.NodeSpec{ProviderID: c.ProviderID, Taints: slices.Clone(c.Taints)},
	}
	if c.Addressing.External {
		node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: uninitializedTaint, Value: "true", Effect: v1.TaintEffectNoSchedule})
	}
	if c.ControllerAttach {
		node.Annotations[attachAnnotation] = "true"
	}
	if ips := c.Addressing.provided(); ips != "" {
		node.Annotations[providedNodeIP] = ips
	}
	return node
}

// reconciledLabels returns the labels that are corrected in an existing node.
func reconciledLabels() []string {
	return []string{
		v1.LabelHostname,
		v1.LabelTopologyZone, v1.LabelTopologyRegion,
		v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion,
		v1.LabelInstanceTypeStable, v1.LabelInstanceType,
		v1.LabelOSStable, v1.LabelArchStable,
		kubeletapis.LabelOS, kubeletapis.LabelArch,
	}
}

// reconcile corrects the agent's part of an existing node: labels with a meaning to Kubernetes, its
// annotation and, if reset is set, extended resources of a previous agent, which become zero.
// Taints and labels of others stay.
func reconcile(node, wanted *v1.Node, reset bool) {
	for _, key := range reconciledLabels() {
		if value, ok := wanted.Labels[key]; !ok {
			continue
		} else if value == "" {
			delete(node.Labels, key)
		} else {
			setLabel(node, key, value)
		}
	}
	setAnnotation(node, attachAnnotation, wanted.Annotations[attachAnnotation])
	if reset {
		nodestatus.ZeroExtended(&node.Status)
	}
}

// refresh corrects the labels and annotations that every round corrects.
func refresh(node, wanted *v1.Node) {
	setLabel(node, v1.LabelOSStable, runtime.GOOS)
	setLabel(node, v1.LabelArchStable, runtime.GOARCH)
	setAnnotation(node, providedNodeIP, wanted.Annotations[providedNodeIP])
}

func setLabel(node *v1.Node, key, value string) {
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	node.Labels[key] = value
}

func setAnnotation(node *v1.Node, key, value string) {
	if value == "" {
		delete(node.Annotations, key)
		return
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Annotations[key] = value
}

// changed reports whether the agent's parts of two nodes differ in more than heartbeats.
func changed(old, new *v1.Node) bool {
	return !maps.Equal(old.Labels, new.Labels) || !maps.Equal(old.Annotations, new.Annotations) || nodestatus.Changed(&old.Status, &new.Status)
}
