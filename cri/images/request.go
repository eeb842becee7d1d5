package images

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/podfacts"
)

// The reasons of the events that a Manager records.
const (
	EventPulling           = "Pulling"
	EventPulled            = "Pulled"
	EventFailed            = "Failed"
	EventBackOff           = "BackOff"
	EventInspectFailed     = "InspectFailed"
	EventErrImageNeverPull = "ErrImageNeverPull"
)

// Request asks for the image of a container or of an image volume.
type Request struct {
	// Pod is the pod that needs it. Its UID keys the backoff, its annotations
	// travel with the image. Required.
	Pod *v1.Pod
	// Container names image and pull policy. Exactly one of Container and Volume
	// is set.
	Container *v1.Container
	// Volume is an image volume of the pod (KEP-4639), which names a reference and
	// a pull policy. Its events go to the pod.
	Volume *v1.Volume
	// SandboxConfig is handed to the runtime with a pull; nil is allowed.
	SandboxConfig *runtimeapi.PodSandboxConfig

	// Running says that containers of the pod run already: one that crashed lost
	// its image, or one was added. Default false.
	Running bool
	// Missing is how many images the pod still lacks, this one included. Zero
	// means as many as it has containers.
	Missing int
	// OnStep is told in words what Ensure is at, when it waits for a pull or
	// begins one. It must not block. nil: nobody is told.
	OnStep func(step string)
}

// check completes a request.
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

// image is what the spec names, and when to pull it.
func (r *Request) image() (name string, policy v1.PullPolicy) {
	if r.Volume != nil {
		return r.Volume.Image.Reference, r.Volume.Image.PullPolicy
	}
	return r.Container.Image, r.Container.ImagePullPolicy
}

// String says whose image it is.
func (r *Request) String() string {
	if r.Volume != nil {
		return fmt.Sprintf("pod %s, volume %q", r.podName(), r.Volume.Name)
	}
	return fmt.Sprintf("pod %s, container %q", r.podName(), r.Container.Name)
}

func (r *Request) podName() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Pod.Namespace, Name: r.Pod.Name}
}

// reference points an event at the container within its pod, or at the pod.
func (r *Request) reference() v1.ObjectReference {
	ref := podfacts.Reference(r.Pod)
	if r.Container != nil {
		ref.FieldPath = podfacts.FieldPath(r.Pod, r.Container.Name)
	}
	return ref
}

// Image is an image that is present on the node.
type Image struct {
	// Ref is the runtime's own reference, to create the container with.
	Ref string
	// UserSpecified is the image as the spec names it.
	UserSpecified string
	// UID is the numeric user the image runs as, nil when the image names
	// none or names it by Username.
	UID *int64
	// Username is the user the image runs as, if it names one.
	Username string
}
