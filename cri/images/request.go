package images

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/podfacts"
)

// The reasons of a Manager's events.
const (
	eventPulling           = "Pulling"
	eventPulled            = "Pulled"
	eventFailed            = "Failed"
	eventBackOff           = "BackOff"
	eventInspectFailed     = "InspectFailed"
	eventErrImageNeverPull = "ErrImageNeverPull"
)

// Request is a request for the image of a container or of an image volume.
type Request struct {
	// Pod is the pod that needs the image. Its UID is the key of the back-off, and its annotations
	// are sent with the image. Required.
	Pod *v1.Pod
	// Container has image and pull policy. Exactly one of Container and Volume is set.
	Container *v1.Container
	// Volume is an image volume of the pod (KEP-4639), with reference and pull policy. Its events
	// go to the pod.
	Volume *v1.Volume
	// SandboxConfig is sent to the runtime with a pull. Optional.
	SandboxConfig *runtimeapi.PodSandboxConfig

	// Running is true if the pod has running containers: a crashed one lost its image, or one was
	// added.
	Running bool
	// Missing is the number of images that the pod lacks, including this one. Default: its number
	// of containers.
	Missing int
	// OnStep is called with a text when Ensure starts to wait for a pull, and when the pull
	// begins. It must not block. Optional.
	OnStep func(step string)
}

func (r *Request) check() error {
	f := fields.Of("images: Request")
	f.Required("Pod", r.Pod)
	if (r.Container == nil) == (r.Volume == nil) {
		f.Refuse("Container or Volume is required, not both")
	}
	if r.Volume != nil && r.Volume.Image == nil {
		f.Refuse("Volume %q is not an image volume", r.Volume.Name)
	}
	containers := 0
	if r.Pod != nil {
		containers = len(r.Pod.Spec.InitContainers) + len(r.Pod.Spec.Containers)
	}
	fields.Number(f, "Missing", &r.Missing, containers)
	fields.Default(&r.OnStep, func(string) {})
	return f.Err()
}

func (r *Request) image() (name string, policy v1.PullPolicy) {
	if r.Volume != nil {
		return r.Volume.Image.Reference, r.Volume.Image.PullPolicy
	}
	return r.Container.Image, r.Container.ImagePullPolicy
}

// String returns the pod with the container or volume.
func (r *Request) String() string {
	if r.Volume != nil {
		return fmt.Sprintf("pod %s, volume %q", r.podName(), r.Volume.Name)
	}
	return fmt.Sprintf("pod %s, container %q", r.podName(), r.Container.Name)
}

func (r *Request) podName() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Pod.Namespace, Name: r.Pod.Name}
}

// reference returns the object of an event: the container within its pod, or the pod.
func (r *Request) reference() v1.ObjectReference {
	ref := podfacts.Reference(r.Pod)
	if r.Container != nil {
		ref.FieldPath = podfacts.FieldPath(r.Pod, r.Container.Name)
	}
	return ref
}

// Image is an image that is present on the node.
type Image struct {
	// Ref is the runtime's reference. Create the container with it.
	Ref string
	// UserSpecified is the image as in the spec.
	UserSpecified string
	// UID is the image's numeric user, or nil if the image has none or uses Username.
	UID *int64
	// Username is the image's user by name, or "".
	Username string
}
