package pods

import (
	"cmp"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
)

// LogDir returns the directory of a pod's logs below root.
func LogDir(root, namespace, name string, uid types.UID) string {
	return request.LogDir(root, namespace, name, uid)
}

// podIdentity identifies a pod in the runtime and in events.
type podIdentity struct {
	labels.Pod
	resourceVersion string
}

func identityOf(pod *v1.Pod) podIdentity {
	return podIdentity{Pod: labels.Pod{UID: pod.UID, Name: pod.Name, Namespace: pod.Namespace}, resourceVersion: pod.ResourceVersion}
}

func identityOfStatus(s *observed.Pod) podIdentity {
	return podIdentity{Pod: labels.Pod{UID: s.UID, Name: s.Name, Namespace: s.Namespace}}
}

// checkIdentity returns an error if the pod lacks UID, name or namespace, or if the status has
// another UID.
func checkIdentity(pod *v1.Pod, status *observed.Pod) error {
	switch {
	case pod.UID == "":
		return errors.New("Pod.UID is required")
	case pod.Name == "":
		return errors.New("Pod.Name is required")
	case pod.Namespace == "":
		return errors.New("Pod.Namespace is required")
	case status.UID != pod.UID:
		return fmt.Errorf("Status.UID is %q, want %q", status.UID, pod.UID)
	}
	return nil
}

// ref returns the object for events of the pod.
func (p podIdentity) ref() v1.ObjectReference {
	return v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1",
		Namespace: p.Namespace, Name: p.Name, UID: p.UID,
		ResourceVersion: p.resourceVersion,
	}
}

// containerRef returns the object for events of a container. A container that is not in the spec
// counts as a regular one.
func (p podIdentity) containerRef(pod *v1.Pod, name string) v1.ObjectReference {
	ref := p.ref()
	ref.FieldPath = cmp.Or(podfacts.FieldPath(pod, name), "spec.containers{"+name+"}")
	return ref
}
