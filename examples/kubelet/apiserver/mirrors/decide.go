package mirrors

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

type step int

const (
	nothing step = iota
	wait         // for the Node
	create
	replace // delete the existing one, then create
	refuse  // a pod that is not a mirror has the name
)

func (s step) String() string {
	return [...]string{"nothing", "wait", "create", "replace", "refuse"}[s]
}

// decide returns the next action for a static pod. there is the pod of its name at the server, or
// nil. decide is pure.
func decide(pod, there *v1.Pod, node *v1.Node) step {
	switch {
	case there != nil && (!podfacts.IsMirror(there) || there.Spec.NodeName != pod.Spec.NodeName):
		return refuse
	case !mayOwn(node):
		return wait
	case there == nil:
		return create
	case fits(pod, there, node):
		return nothing
	}
	return replace
}

// mayOwn reports whether a Node can own mirrors: it exists and is not being deleted.
func mayOwn(node *v1.Node) bool {
	return node != nil && node.DeletionTimestamp == nil && node.UID != ""
}

func fits(pod, mirror *v1.Pod, node *v1.Node) bool {
	owned := slices.ContainsFunc(mirror.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "Node" && o.UID == node.UID && o.Controller != nil && *o.Controller
	})
	return owned && mirror.DeletionTimestamp == nil && mirror.Annotations[podfacts.ConfigMirror] == pod.Annotations[podfacts.ConfigHash]
}

func mirrorOf(pod *v1.Pod, node *v1.Node) *v1.Pod {
	yes := true
	spec := pod.Spec.DeepCopy()
	annotations := maps.Clone(pod.Annotations)
	annotations[podfacts.ConfigMirror] = pod.Annotations[podfacts.ConfigHash]
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, Labels: maps.Clone(pod.Labels), Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: &yes}},
		},
		Spec: *spec,
	}
}
