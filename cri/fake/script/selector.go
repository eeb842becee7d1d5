package script

import "strings"

// Kind tells sandboxes from containers.
type Kind int

// The kinds of objects. AnyKind in a Selector selects both and in an Object says
// that the call is about neither.
const (
	AnyKind Kind = iota
	SandboxKind
	ContainerKind
)

// Object is what a call, an event or a run is about. Lists and calls such as
// Version are about nothing; a field that is not known is empty.
type Object struct {
	// Kind is SandboxKind or ContainerKind; AnyKind for an image, or nothing.
	Kind Kind
	// Container is the container's name, and Attempt its attempt or, of a
	// sandbox, the sandbox's.
	Container string
	Attempt   uint32
	// Namespace, Pod and UID are those of the pod; Pod is its name. A pull has
	// them when it says for which sandbox it is.
	Namespace, Pod, UID string
	// Image is the image as the caller gave it, also a container's.
	Image string
}

// Selector selects objects: those that have all that it says. The zero value
// selects everything.
type Selector struct {
	// Kind selects sandboxes or containers only.
	Kind Kind
	// Container is a container's name; then Kind is ContainerKind. "": any.
	Container string
	// Attempt is the attempt of the container or sandbox that Kind says. nil: any.
	Attempt *uint32
	// Namespace and Pod are the pod's; a Namespace needs a Pod. "": any.
	Namespace, Pod string
	// UID is the pod's UID. "": any.
	UID string
	// Image is the image of a container or of an image call. "": any.
	Image string
}

// OfPod selects all that belongs to a pod, given as "name" or "namespace/name".
func OfPod(pod string) Selector {
	var s Selector
	s.Namespace, s.Pod = splitPod(pod)
	return s
}

// OfContainer selects containers of a name in a pod, given as "name" or
// "namespace/name", or in all pods when pod is "".
func OfContainer(name, pod string) Selector {
	s := OfPod(pod)
	s.Kind, s.Container = ContainerKind, name
	return s
}

// OfSandbox selects the sandboxes of a pod, or all of them when pod is "".
func OfSandbox(pod string) Selector {
	s := OfPod(pod)
	s.Kind = SandboxKind
	return s
}

// OfImage selects what is about an image, and containers that run it.
func OfImage(image string) Selector { return Selector{Image: image} }

// WithAttempt returns the selector for one attempt.
func (s Selector) WithAttempt(attempt uint32) Selector {
	s.Attempt = &attempt
	return s
}

func splitPod(pod string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(pod, "/"); ok {
		return namespace, name
	}
	return "", pod
}

// selects tells whether the selector selects the object.
func (s *Selector) selects(o *Object) bool {
	return (s.Kind == AnyKind || s.Kind == o.Kind) &&
		(s.Container == "" || s.Container == o.Container) &&
		(s.Attempt == nil || *s.Attempt == o.Attempt) &&
		(s.Namespace == "" || s.Namespace == o.Namespace) &&
		(s.Pod == "" || s.Pod == o.Pod) &&
		(s.UID == "" || s.UID == o.UID) &&
		(s.Image == "" || s.Image == o.Image)
}

func (s *Selector) empty() bool { return *s == Selector{} }

// problem tells what is wrong with the selector of a rule about subject, "" when
// nothing is.
func (s *Selector) problem(subject string) string {
	switch {
	case !s.empty() && aboutNothing(subject):
		return subject + " is about no object, so the rule can never fire"
	case s.Kind < AnyKind || s.Kind > ContainerKind:
		return "there is no such Kind"
	case s.Container != "" && s.Kind != ContainerKind:
		return "a container's name needs ContainerKind"
	case s.Attempt != nil && s.Kind == AnyKind:
		return "an attempt needs SandboxKind or ContainerKind"
	case s.Namespace != "" && s.Pod == "":
		return "a namespace needs a pod"
	case strings.Contains(s.Namespace, "/") || strings.Contains(s.Pod, "/"):
		return "names have no slash"
	case s.Kind == SandboxKind && subjectGroup(subject) == runs:
		return "a sandbox runs no program"
	case s.Kind == SandboxKind && s.Image != "":
		return "a sandbox has no image"
	}
	return ""
}

func (s Selector) String() string {
	var parts []string
	add := func(word, name string) {
		if name != "" {
			parts = append(parts, "of "+word+" "+quoteName(name))
		}
	}
	kind := ""
	switch s.Kind {
	case SandboxKind:
		kind = "of sandbox"
	case ContainerKind:
		kind = "of container"
	}
	if s.Container != "" {
		kind += " " + quoteName(s.Container)
	}
	if s.Attempt != nil {
		kind += " attempt " + uitoa(*s.Attempt)
	}
	if kind != "" {
		parts = append(parts, kind)
	}
	pod := s.Pod
	if s.Namespace != "" {
		pod = s.Namespace + "/" + pod
	}
	add("pod", pod)
	add("uid", s.UID)
	add("image", s.Image)
	return strings.Join(parts, " ")
}
