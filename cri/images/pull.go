package images

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/images/credentials"
	"github.com/podwright/podwright/cri/images/records"
)

// handlerAnnotation selects the pod's runtime handler, with its own image store, in containerd.
const handlerAnnotation = "io.containerd.cri.runtime-handler"

// pull waits for a pull unless the back-off forbids it.
func (a *attempt) pull(ctx context.Context) (Image, error) {
	if until, last := a.m.history.blocked(a.key(), time.Now()); !until.IsZero() {
		message := fmt.Sprintf("Back-off pulling image %q", a.spec)
		a.event(v1.EventTypeNormal, eventBackOff, message)
		return Image{}, &Error{Reason: ReasonImagePullBackOff, Message: fmt.Sprintf("%s: %v", message, last), Err: last, notBefore: until}
	}
	if !a.credsLookedUp && a.m.cfg.Credentials != nil {
		a.r.OnStep("finding credentials for image " + a.name)
	}
	_, _ = a.credentials(ctx) // the error becomes part of a pull error
	if ctx.Err() != nil {
		return Image{}, calledOff(ctx, "finding credentials for image", a.name)
	}
	a.reinspect = a.before == nil && a.policy != v1.PullAlways
	for {
		f := a.m.queue.join(ctx, a, a.flightKey(), a.wantsFresh())
		if err := a.wait(ctx, f); err != nil {
			return Image{}, err
		}
		if !f.result.found {
			return a.finished(ctx, f)
		}
		// Another request has pulled it meanwhile, possibly with credentials that this pod lacks.
		found, err := a.inspect(ctx, a.name)
		if err != nil {
			return Image{}, err
		}
		if found != nil && a.mayUse(ctx, found) {
			return a.present(found), nil
		}
		a.reinspect = false
	}
}

// wantsFresh reports whether an already started pull is too old: with policy Always the tag may
// have moved since.
func (a *attempt) wantsFresh() bool { return a.policy == v1.PullAlways && a.parsed.Digest == "" }

// flightKey is equal for attempts that can share a pull.
func (a *attempt) flightKey() string {
	parts := []string{a.name, a.r.Pod.Annotations[handlerAnnotation]}
	for _, c := range a.creds {
		parts = append(parts, c.Hash())
	}
	return strings.Join(parts, "\x00")
}

// key identifies the pod and the image, because pods differ in their access.
func (a *attempt) key() string { return podKey(a.r.Pod.UID) + a.name }

func podKey(pod types.UID) string { return string(pod) + "_" }

// wait waits for the end of a flight and reports its steps.
func (a *attempt) wait(ctx context.Context, f *flight) error {
	if n := a.m.queue.position(f); n > 0 {
		a.r.OnStep(fmt.Sprintf("waiting to pull image %s: %s in the queue", a.name, ordinal(n)))
	}
	step, began := "waiting to pull image", f.began
	for {
		select {
		case <-began:
			began, step = nil, "pulling image"
			a.r.OnStep("pulling image " + a.name)
			a.event(v1.EventTypeNormal, eventPulling, fmt.Sprintf("Pulling image %q", a.spec))
		case <-f.done:
			select {
			case <-began: // it may end before this goroutine saw its beginning
				continue
			default:
				return nil
			}
		case <-ctx.Done():
			a.m.queue.leave(f, a)
			return calledOff(ctx, step, a.name)
		}
	}
}

// finished converts a flight's result to the result for this pod.
func (a *attempt) finished(ctx context.Context, f *flight) (Image, error) {
	r := &f.result
	if len(r.errs) > 0 {
		return Image{}, a.failed(r)
	}
	a.m.history.succeeded(a.key())
	switch {
	case r.inspectErr != nil && ctx.Err() != nil:
		return Image{}, calledOff(ctx, "inspecting image", a.name)
	case r.inspectErr != nil:
		return Image{}, a.inspectFailed(fmt.Sprintf("Failed to inspect image %q: %v", r.ref, r.inspectErr), r.inspectErr)
	case r.image == nil:
		return Image{}, a.inspectFailed(fmt.Sprintf("image %q (%s) is absent after its pull", a.name, r.ref), nil)
	}
	a.share(r)
	a.event(v1.EventTypeNormal, eventPulled, fmt.Sprintf("Successfully pulled image %q in %s (%s including waiting). Image size: %d bytes.",
		a.spec, r.took.Truncate(time.Millisecond), time.Since(a.since).Truncate(time.Millisecond), r.image.GetSize()))
	return a.image(r.image, r.ref), nil
}

// share records that this pod, too, has access to the image.
func (a *attempt) share(r *result) {
	if a.m.cfg.Records == nil {
		return
	}
	err := a.m.cfg.Records.Share(records.Pull{
		Image: a.name, Ref: r.image.GetId(), Credential: a.credential(r.credential), Status: r.image,
	})
	if err != nil {
		a.m.cfg.Logger.Error("recording a pod's access to an image failed", "pod", a.r.podName(), "image", a.name, "err", err)
	}
}

func (a *attempt) credential(i int) *credentials.Credential {
	if i < len(a.creds) {
		return &a.creds[i]
	}
	return nil
}

func (m *Manager) fly(ctx context.Context, f *flight) {
	waiters, parked := m.queue.waiters(f)
	if len(waiters) == 0 {
		return
	}
	lead := waiters[0]
	if parked && !slices.ContainsFunc(waiters, func(a *attempt) bool { return !a.reinspect }) {
		// An earlier flight may have pulled this image. If the inspection fails, the pull returns
		// the error.
		response, err := m.cfg.Service.ImageStatus(ctx, lead.imageSpec(lead.name), false)
		if err == nil && response.GetImage() != nil {
			f.result.found = true
			return
		}
	}
	close(f.began)
	start := time.Now()
	f.result = m.fetch(ctx, lead)
	f.result.took = time.Since(start)
	if len(f.result.errs) > 0 {
		if ctx.Err() == nil {
			m.cfg.Metrics.OnPull(f.image, f.result.took, 0, f.result.cause())
		}
		return
	}
	m.cfg.Metrics.OnPull(f.image, f.result.took, f.result.image.GetSize(), nil)
}

func (m *Manager) fetch(ctx context.Context, lead *attempt) result {
	if !m.throttle.take(time.Now()) {
		return result{errs: []error{ErrThrottled}}
	}
	if m.cfg.Records != nil {
		if err := m.cfg.Records.Begin(lead.name, lead.before); err != nil {
			return result{errs: []error{err}}
		}
	}
	out := m.try(ctx, lead)
	if len(out.errs) == 0 {
		// Inspect the pulled reference for its user: the name may refer to another image by now.
		response, err := m.cfg.Service.ImageStatus(ctx, lead.imageSpec(out.ref), false)
		out.image, out.inspectErr = response.GetImage(), err
	}
	if m.cfg.Records != nil {
		m.record(ctx, lead, &out)
	}
	return out
}

func (m *Manager) try(ctx context.Context, lead *attempt) result {
	var out result
	for i := range max(1, len(lead.creds)) {
		var auth *runtimeapi.AuthConfig
		if c := lead.credential(i); c != nil {
			auth = c.Auth
		}
		ref, err := m.cfg.Service.PullImage(ctx, lead.imageSpec(lead.name), auth, lead.r.SandboxConfig)
		if err == nil {
			return result{ref: ref, credential: i}
		}
		out.errs = append(out.errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return out
}

// record stores the outcome of a pull. An error of the store does not fail the pull: the intent
// stays, so that other pods must authenticate.
func (m *Manager) record(ctx context.Context, lead *attempt, r *result) {
	var err error
	if len(r.errs) > 0 {
		doubt := ctx.Err() != nil || slices.ContainsFunc(r.errs, cutOff)
		err = m.cfg.Records.Failed(lead.name, doubt)
	} else {
		pull := records.Pull{Image: lead.name, Ref: r.ref, Credential: lead.credential(r.credential), Status: r.image}
		if r.image != nil {
			pull.Ref = r.image.GetId()
		}
		err = m.cfg.Records.Pulled(pull)
	}
	if err != nil {
		m.cfg.Logger.Error("recording the pull of an image failed", "image", lead.name, "err", err)
	}
}

// cutOff reports whether the runtime may continue a pull in spite of its error.
func cutOff(err error) bool {
	var withStatus interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &withStatus) {
		return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	}
	switch withStatus.GRPCStatus().Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable:
		return true
	}
	return false
}

func (r *result) cause() error {
	if len(r.errs) == 1 {
		return r.errs[0]
	}
	return errors.Join(r.errs...)
}

// backOffNotice is the time between a failed pull and the next useful try, which does not pull but
// returns ImagePullBackOff during the back-off.
const backOffNotice = time.Second

// failed returns the error of a failed pull and starts the pod's back-off.
func (a *attempt) failed(r *result) error {
	cause := r.cause()
	if a.credsErr != nil {
		cause = errors.Join(cause, fmt.Errorf("finding credentials: %w", a.credsErr))
	}
	message := strings.ReplaceAll(cause.Error(), "\n", "; ")
	text := fmt.Sprintf("Failed to pull image %q: %s", a.spec, message)
	reason := pullReason(r.errs)
	failure := &Error{Reason: reason, Message: pullMessage(reason, a.spec, message), Err: cause}
	now := time.Now()
	retry := a.m.history.failed(a.key(), now, failure)
	a.event(v1.EventTypeWarning, eventFailed, text)
	a.m.cfg.Logger.Debug("Image pull failed", "pod", a.r.podName(), "podUID", a.r.Pod.UID,
		"image", a.name, "retryAfter", retry, "err", cause)
	// The stored failure has no time: it becomes the cause of ImagePullBackOff, and a cause with
	// an expired time would make its caller retry at once.
	early := *failure
	early.notBefore = now.Add(backOffNotice)
	return &early
}
