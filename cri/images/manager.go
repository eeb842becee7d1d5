package images

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
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

// Request asks for the image of one container.
type Request struct {
	// Pod is the container's pod. Its UID keys the backoff, its annotations
	// travel with the image.
	Pod *v1.Pod
	// Container names image and pull policy. For an image volume it is a
	// container made up for the purpose: events then go to the pod.
	Container *v1.Container
	// SandboxConfig is handed to the runtime with a pull; nil is allowed.
	SandboxConfig *runtimeapi.PodSandboxConfig
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

// Manager provides images. Use New; it is safe for concurrent use and starts no
// goroutines.
type Manager struct {
	cfg      Config
	slots    chan struct{} // nil means no limit
	throttle *bucket
	history  *history
}

// New returns a Manager.
func New(cfg Config) (*Manager, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	m := &Manager{cfg: cfg, throttle: newBucket(cfg.QPS, cfg.Burst), history: newHistory(cfg.Backoff)}
	if cfg.MaxParallelPulls > 0 {
		m.slots = make(chan struct{}, cfg.MaxParallelPulls)
	}
	return m, nil
}

// Ensure makes sure that the container's image is present, pulling it when the
// policy asks for it. It returns an *Error that names the waiting reason, or,
// when ctx ends first, an error that wraps ctx's. It may be called for several
// containers at the same time.
func (m *Manager) Ensure(ctx context.Context, r Request) (Image, error) {
	if r.Pod == nil || r.Container == nil {
		return Image{}, errors.New("images: Request.Pod and Request.Container are required")
	}
	a := &attempt{m: m, r: r}
	image, err := a.run(ctx)
	if err == nil {
		return image, nil
	}
	return Image{}, fmt.Errorf("pod %s/%s, container %q: %w", r.Pod.Namespace, r.Pod.Name, r.Container.Name, err)
}

// attempt is one call of Ensure.
type attempt struct {
	m      *Manager
	r      Request
	name   string // normalised
	policy v1.PullPolicy
}

func (a *attempt) run(ctx context.Context) (Image, error) {
	name, err := ParseName(a.r.Container.Image)
	if err != nil {
		a.event(v1.EventTypeWarning, EventInspectFailed, fmt.Sprintf("Invalid image name: %v", err))
		return Image{}, &Error{Reason: ReasonInvalidImageName, Message: err.Error(), Err: err}
	}
	name = name.normal()
	a.name, a.policy = name.String(), effectivePolicy(a.r.Container.ImagePullPolicy, name)
	found, err := a.inspect(ctx, a.name)
	if err != nil {
		return Image{}, err
	}
	pull := a.policy == v1.PullAlways || found == nil && a.policy != v1.PullNever
	a.m.cfg.Metrics.Requested(a.policy, found != nil, pull)
	switch {
	case pull:
		return a.pullInTurn(ctx)
	case found == nil:
		message := fmt.Sprintf("image %q is not present and the pull policy is Never", a.name)
		a.event(v1.EventTypeWarning, EventErrImageNeverPull, message)
		return Image{}, &Error{Reason: ReasonErrImageNeverPull, Message: message}
	default:
		return a.present(found), nil
	}
}

// effectivePolicy is the pull policy with its default. What is neither Always
// nor Never pulls when the image is absent.
func effectivePolicy(policy v1.PullPolicy, name Name) v1.PullPolicy {
	switch {
	case policy == v1.PullAlways, policy == v1.PullNever:
		return policy
	case policy == "" && name.Tag == "latest":
		return v1.PullAlways
	default:
		return v1.PullIfNotPresent
	}
}

func (a *attempt) present(found *runtimeapi.Image) Image {
	a.event(v1.EventTypeNormal, EventPulled, fmt.Sprintf("Image %q is already present on the machine", a.name))
	return a.image(found, found.GetId())
}

func (a *attempt) image(found *runtimeapi.Image, ref string) Image {
	image := Image{Ref: ref, UserSpecified: a.r.Container.Image, Username: found.GetUsername()}
	if uid := found.GetUid(); uid != nil {
		image.UID = &uid.Value
	}
	return image
}

// inspect returns the image behind a name or reference, nil when it is absent.
func (a *attempt) inspect(ctx context.Context, ref string) (*runtimeapi.Image, error) {
	response, err := a.m.cfg.Service.ImageStatus(ctx, a.spec(ref), false)
	if err == nil {
		return response.GetImage(), nil
	}
	if ctx.Err() != nil {
		return nil, calledOff(ctx, "inspecting image", a.name)
	}
	message := fmt.Sprintf("inspecting image %q: %v", ref, err)
	a.event(v1.EventTypeWarning, EventInspectFailed, message)
	return nil, &Error{Reason: ReasonImageInspectError, Message: message, Err: err}
}

func (a *attempt) spec(ref string) *runtimeapi.ImageSpec {
	return &runtimeapi.ImageSpec{Image: ref, UserSpecifiedImage: a.r.Container.Image, Annotations: a.r.Pod.Annotations}
}

// pullInTurn pulls unless the backoff forbids it, when a slot is free.
func (a *attempt) pullInTurn(ctx context.Context) (Image, error) {
	if until, last := a.m.history.blocked(a.key(), time.Now()); !until.IsZero() {
		message := fmt.Sprintf("back-off pulling image %q: %v", a.name, last)
		a.event(v1.EventTypeNormal, EventBackOff, message)
		return Image{}, &Error{Reason: ReasonImagePullBackOff, Message: message, Err: last, notBefore: until}
	}
	waited, err := a.m.acquire(ctx)
	if err != nil {
		return Image{}, calledOff(ctx, "waiting to pull image", a.name)
	}
	defer a.m.release()
	if waited && a.policy != v1.PullAlways {
		// Whoever was in front may have pulled just this image.
		if found, err := a.inspect(ctx, a.name); err != nil || found != nil {
			if err != nil {
				return Image{}, err
			}
			return a.present(found), nil
		}
	}
	return a.pull(ctx)
}

func (a *attempt) pull(ctx context.Context) (Image, error) {
	a.event(v1.EventTypeNormal, EventPulling, fmt.Sprintf("Pulling image %q", a.name))
	start := time.Now()
	ref, errs := a.fetch(ctx)
	if len(errs) > 0 {
		if ctx.Err() != nil {
			return Image{}, calledOff(ctx, "pulling image", a.name)
		}
		return Image{}, a.failed(time.Since(start), errs)
	}
	a.m.history.succeeded(a.key())
	took := time.Since(start)
	// The user is that of the image which was pulled, not of whatever its name
	// points to by now.
	found, err := a.inspect(ctx, ref)
	a.m.cfg.Metrics.Pulled(a.name, took, found.GetSize(), nil)
	if err != nil {
		return Image{}, err
	}
	if found == nil {
		message := fmt.Sprintf("image %q (%s) vanished after its pull", a.name, ref)
		a.event(v1.EventTypeWarning, EventInspectFailed, message)
		return Image{}, &Error{Reason: ReasonImageInspectError, Message: message}
	}
	a.event(v1.EventTypeNormal, EventPulled, fmt.Sprintf("Successfully pulled image %q in %s. Image size: %d bytes.",
		a.name, took.Round(time.Millisecond), found.GetSize()))
	return a.image(found, ref), nil
}

// fetch tries the credentials in turn and returns the reference of the first
// success, or what went wrong with each.
func (a *attempt) fetch(ctx context.Context) (string, []error) {
	if !a.m.throttle.take(time.Now()) {
		return "", []error{ErrThrottled}
	}
	auths := []*runtimeapi.AuthConfig{nil}
	if a.m.cfg.Credentials != nil {
		found, err := a.m.cfg.Credentials(ctx, a.r, a.name)
		if err != nil {
			return "", []error{fmt.Errorf("finding credentials: %w", err)}
		}
		if len(found) > 0 {
			auths = found
		}
	}
	var errs []error
	for _, auth := range auths {
		ref, err := a.m.cfg.Service.PullImage(ctx, a.spec(a.name), auth, a.r.SandboxConfig)
		if err == nil {
			return ref, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return "", errs
}

// announce is how soon after a failed pull another try makes sense: not to pull,
// but to say ImagePullBackOff for as long as the backoff lasts.
const announce = time.Second

func (a *attempt) failed(took time.Duration, errs []error) error {
	cause := errs[0]
	if len(errs) > 1 {
		cause = errors.Join(errs...)
	}
	message := fmt.Sprintf("failed to pull image %q: %s", a.name, strings.ReplaceAll(cause.Error(), "\n", "; "))
	failure := &Error{Reason: pullReason(errs), Message: message, Err: cause}
	now := time.Now()
	retry := a.m.history.failed(a.key(), now, failure)
	a.m.cfg.Metrics.Pulled(a.name, took, 0, cause)
	a.event(v1.EventTypeWarning, EventFailed, "F"+message[1:])
	a.m.cfg.Logger.Debug("Image pull failed", "pod", a.r.Pod.Namespace+"/"+a.r.Pod.Name, "podUID", a.r.Pod.UID,
		"container", a.r.Container.Name, "image", a.name, "retryAfter", retry, "err", cause)
	// What is remembered has no time: it becomes the cause of ImagePullBackOff, and
	// a cause whose time is over would have its caller try again and again.
	soon := *failure
	soon.notBefore = now.Add(announce)
	return &soon
}

// key keeps pods apart: what one may not pull another may.
func (a *attempt) key() string { return string(a.r.Pod.UID) + "_" + a.name }

// acquire waits for a slot to pull in, in the order of arrival.
func (m *Manager) acquire(ctx context.Context) (waited bool, err error) {
	if m.slots == nil {
		return false, ctx.Err()
	}
	select {
	case m.slots <- struct{}{}:
		return false, nil
	default:
	}
	select {
	case m.slots <- struct{}{}:
		return true, nil
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

func (m *Manager) release() {
	if m.slots != nil {
		<-m.slots
	}
}

// calledOff is the error of a step that the context ended.
func calledOff(ctx context.Context, step, image string) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != err {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return fmt.Errorf("%s %q: %w", step, image, err)
}

func (a *attempt) event(eventtype, reason, message string) {
	a.m.cfg.Event(reference(a.r.Pod, a.r.Container), eventtype, reason, message)
}

// reference points an event at the container within its pod.
func reference(pod *v1.Pod, c *v1.Container) v1.ObjectReference {
	return v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		ResourceVersion: pod.ResourceVersion, FieldPath: fieldPath(pod, c.Name),
	}
}

func fieldPath(pod *v1.Pod, name string) string {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return "spec.containers{" + name + "}"
		}
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return "spec.initContainers{" + name + "}"
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			return "spec.ephemeralContainers{" + name + "}"
		}
	}
	return ""
}
