package images

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/images/credentials"
	"github.com/podwright/podwright/cri/images/imageref"
	"github.com/podwright/podwright/internal/span"
)

// Manager provides images. Create it with New. It is safe for concurrent use. It has one goroutine
// per pull, and none without pulls.
type Manager struct {
	cfg      Config
	throttle *bucket
	history  *history
	queue    *queue

	mu          sync.Mutex
	lastEnsured map[string]time.Time // last time that Ensure returned an image, by its reference
}

// New returns a Manager.
func New(cfg Config) (*Manager, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	m := &Manager{
		cfg: cfg, throttle: newBucket(cfg.QPS, cfg.Burst), history: newHistory(), lastEnsured: map[string]time.Time{},
	}
	m.queue = &queue{limit: cfg.MaxParallelPulls, fly: m.fly, running: map[*flight]bool{}}
	return m, nil
}

// Ensure makes an image present. It pulls the image if the policy requires it, or if the pod must
// prove its access. The returned error wraps an *Error with the waiting reason or, if ctx ends
// first, ctx's error; for an invalid Request it wraps neither. It is safe for concurrent use.
func (m *Manager) Ensure(ctx context.Context, r Request) (Image, error) {
	if err := r.check(); err != nil {
		return Image{}, err
	}
	a := &attempt{m: m, r: r, since: time.Now()}
	image, err := a.run(ctx)
	if err != nil {
		return Image{}, fmt.Errorf("%s: %w", &r, err)
	}
	m.hand(image.Ref)
	return image, nil
}

type attempt struct {
	m     *Manager
	r     Request
	since time.Time

	spec   string // the image as in the spec
	name   string // normalised
	parsed imageref.Name
	policy v1.PullPolicy
	before *runtimeapi.Image // the image present at the beginning, or nil

	credsLookedUp bool // for credentials
	creds         []credentials.Credential
	credsErr      error
	reinspect     bool // whether an image that appears while this attempt waits is sufficient
}

func (a *attempt) run(ctx context.Context) (Image, error) {
	var policy v1.PullPolicy
	a.spec, policy = a.r.image()
	name, err := imageref.Parse(a.spec)
	if err != nil {
		message := fmt.Sprintf("Failed to apply default image tag %q: %v", a.spec, err)
		a.event(v1.EventTypeWarning, eventInspectFailed, message)
		return Image{}, &Error{Reason: ReasonInvalidImageName, Message: message, Err: err}
	}
	a.parsed = name.Normal()
	a.name, a.policy = a.parsed.String(), effectivePolicy(policy, a.parsed)
	found, err := a.inspect(ctx, a.name)
	if err != nil {
		return Image{}, err
	}
	a.before = found
	allowed := found != nil && a.policy != v1.PullAlways && a.mayUse(ctx, found)
	if ctx.Err() != nil {
		return Image{}, calledOff(ctx, "finding credentials for image", a.name)
	}
	pull := !allowed && a.policy != v1.PullNever
	a.m.cfg.Metrics.OnRequest(a.policy, found != nil, pull)
	switch {
	case pull:
		defer func(from time.Time) { a.m.cfg.Metrics.OnWait(a.r.Pod.UID, from, time.Now()) }(time.Now())
		ctx, end := span.Begin(ctx, a.m.cfg.Span, "Images/Pull", slog.String("image", a.name),
			slog.String("k8s.pod", a.r.podName().String()), slog.String("k8s.pod.uid", string(a.r.Pod.UID)))
		image, err := a.pull(ctx)
		end(err)
		return image, err
	case !allowed:
		return Image{}, a.neverPulled()
	default:
		return a.present(found), nil
	}
}

// effectivePolicy returns the pull policy with its default. Unknown values mean IfNotPresent.
func effectivePolicy(policy v1.PullPolicy, name imageref.Name) v1.PullPolicy {
	switch {
	case policy == v1.PullAlways, policy == v1.PullNever:
		return policy
	case policy == "" && name.Tag == "latest":
		return v1.PullAlways
	default:
		return v1.PullIfNotPresent
	}
}

// mayUse reports whether the pod may use a present image. If verification fails, it returns false,
// and a pull decides.
func (a *attempt) mayUse(ctx context.Context, found *runtimeapi.Image) bool {
	if a.m.cfg.Records == nil {
		return true
	}
	ok, err := a.m.cfg.Records.Verify(ctx, a.name, found.GetId(), a.credentials)
	if err != nil && ctx.Err() == nil {
		a.m.cfg.Logger.Warn("verifying a pod's access to an image failed", "pod", a.r.podName(), "image", a.name, "err", err)
	}
	return ok
}

// credentials returns the pod's credentials. It looks them up once.
func (a *attempt) credentials(ctx context.Context) ([]credentials.Credential, error) {
	if !a.credsLookedUp && a.m.cfg.Credentials != nil {
		a.creds, a.credsErr = a.m.cfg.Credentials.Credentials(ctx, a.r.Pod, a.parsed.Repository)
	}
	a.credsLookedUp = true
	return a.creds, a.credsErr
}

// neverPulled returns the error for an image that is absent, or that the pod's credentials do not
// permit. The message is the same: it must not reveal the presence of an image.
func (a *attempt) neverPulled() error {
	message := fmt.Sprintf("Container image %q is not present with pull policy of Never", a.spec)
	a.event(v1.EventTypeWarning, eventErrImageNeverPull, message)
	return &Error{Reason: ReasonErrImageNeverPull, Message: message}
}

func (a *attempt) present(found *runtimeapi.Image) Image {
	message := fmt.Sprintf("Container image %q already present on machine", a.spec)
	if a.m.cfg.Records != nil {
		message = fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", a.spec)
	}
	a.event(v1.EventTypeNormal, eventPulled, message)
	return a.image(found, found.GetId())
}

func (a *attempt) image(found *runtimeapi.Image, ref string) Image {
	image := Image{Ref: ref, UserSpecified: a.spec, Username: found.GetUsername()}
	if uid := found.GetUid(); uid != nil {
		image.UID = &uid.Value
	}
	return image
}

// inspect returns the image for a name or reference, or nil if it is absent.
func (a *attempt) inspect(ctx context.Context, ref string) (*runtimeapi.Image, error) {
	response, err := a.m.cfg.Service.ImageStatus(ctx, a.imageSpec(ref), false)
	if err == nil {
		return response.GetImage(), nil
	}
	if ctx.Err() != nil {
		return nil, calledOff(ctx, "inspecting image", a.name)
	}
	return nil, a.inspectFailed(fmt.Sprintf("Failed to inspect image %q: %v", ref, err), err)
}

func (a *attempt) inspectFailed(message string, err error) error {
	a.event(v1.EventTypeWarning, eventInspectFailed, message)
	return &Error{Reason: ReasonImageInspectError, Message: message, Err: err}
}

func (a *attempt) imageSpec(ref string) *runtimeapi.ImageSpec {
	return &runtimeapi.ImageSpec{Image: ref, UserSpecifiedImage: a.spec, Annotations: a.r.Pod.Annotations}
}

func (a *attempt) event(eventtype, reason, message string) {
	a.m.cfg.Event(a.r.reference(), eventtype, reason, message)
}

// calledOff returns the error of a step that the context ended.
func calledOff(ctx context.Context, step, image string) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != err {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return fmt.Errorf("%s %q: %w", step, image, err)
}

// recentUse is the time after Ensure in which its image counts as in use: long enough to create the
// container.
const recentUse = 5 * time.Minute

func (m *Manager) hand(ref string) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, at := range m.lastEnsured {
		if now.Sub(at) > recentUse {
			delete(m.lastEnsured, k)
		}
	}
	m.lastEnsured[ref] = now
}

// Forget drops the failures and back-offs of a removed pod. Without Forget they are dropped at the
// first failed pull of any pod more than ten minutes later.
func (m *Manager) Forget(pod types.UID) { m.history.forget(podKey(pod)) }

// InUse returns the images that Ensure has returned within the last five minutes. Their containers
// may not exist yet, so image garbage collection must keep them.
func (m *Manager) InUse() []string {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for ref, at := range m.lastEnsured {
		if now.Sub(at) <= recentUse {
			out = append(out, ref)
		}
	}
	return out
}
