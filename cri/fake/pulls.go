package fake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A PullStatus is a pull that is under way.
type PullStatus struct {
	// Image is the name that is pulled, complete: "docker.io/library/busybox:latest".
	Image string
	// Done and Total are bytes, as far as the Puller has told: see
	// ReportProgress. Total is zero before it knows.
	Done, Total uint64
	// Since is when the pull began, Progress when its Puller last told more, by
	// the clock of this process.
	Since, Progress time.Time
}

// pullSet are the pulls under way.
type pullSet struct {
	mu   sync.Mutex
	open map[*pull]struct{}
}

// pull is one of them. Guarded by pullSet.mu.
type pull struct {
	of      *pullSet
	status  PullStatus
	patient time.Duration
	stalled *time.Timer // nil: it may take for ever
}

// pullKey is the key of a pull in the context of its Puller.
type pullKey struct{}

// begin notes a pull; stalled is called when it makes no progress for timeout,
// if that is not zero.
func (s *pullSet) begin(image string, timeout time.Duration, stalled func()) *pull {
	now := time.Now()
	p := &pull{of: s, status: PullStatus{Image: image, Since: now, Progress: now}, patient: timeout}
	s.mu.Lock()
	defer s.mu.Unlock()
	if timeout > 0 {
		p.stalled = time.AfterFunc(timeout, stalled)
	}
	if s.open == nil {
		s.open = map[*pull]struct{}{}
	}
	s.open[p] = struct{}{}
	return p
}

func (p *pull) end() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.stalled != nil {
		p.stalled.Stop()
	}
	delete(p.of.open, p)
}

func (p *pull) report(done, total uint64) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if done > p.status.Done {
		p.status.Progress = time.Now()
		// One that has fired has ended the pull.
		if p.stalled != nil && p.stalled.Stop() {
			p.stalled.Reset(p.patient)
		}
	}
	p.status.Done, p.status.Total = done, total
}

// ReportProgress is for Pullers: it tells how many bytes of how many in all have
// been pulled. ctx is the one that the Puller was given, or derived from it;
// with any other it does nothing. Pulls shows it, ImageFsInfo counts it, and
// Config.PullProgressTimeout begins anew when done has grown.
func ReportProgress(ctx context.Context, done, total uint64) {
	if p, ok := ctx.Value(pullKey{}).(*pull); ok {
		p.report(done, total)
	}
}

// Pulls lists the pulls under way, oldest first. Two pulls of one image are two.
func (rt *Runtime) Pulls() []PullStatus {
	rt.pulls.mu.Lock()
	defer rt.pulls.mu.Unlock()
	out := make([]PullStatus, 0, len(rt.pulls.open))
	for p := range rt.pulls.open {
		out = append(out, p.status)
	}
	slices.SortFunc(out, func(a, b PullStatus) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Image, b.Image), cmp.Compare(b.Done, a.Done))
	})
	return out
}

// partial is how many bytes of images are there that are not complete. What two
// pulls of one image bring is there once.
func (s *pullSet) partial() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := map[string]uint64{}
	for p := range s.open {
		most[p.status.Image] = max(most[p.status.Image], p.status.Done)
	}
	var sum uint64
	for _, n := range most {
		sum += n
	}
	return sum
}

// PullImage asks Config.Pull for an image and returns its ID. A pull that fails
// or is cut off leaves nothing.
func (rt *Runtime) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	request := &runtimeapi.PullImageRequest{Image: image, Auth: auth, SandboxConfig: sandboxConfig}
	if err := rt.enter(ctx, "PullImage", request); err != nil {
		return "", err
	}
	name, err := normalize(image.GetImage())
	if err != nil {
		return "", status.Errorf(codes.InvalidArgument, "failed to parse image reference %q: %v", image.GetImage(), err)
	}
	pulled, err := rt.pull(ctx, name, image, auth)
	if err != nil {
		return "", err
	}
	if pulled.Name == "" {
		pulled.Name = image.GetImage()
	}
	if err := validateImage(pulled); err != nil {
		return "", status.Errorf(codes.Internal, "what Config.Pull brought for %q is no image: %v", image.GetImage(), err)
	}
	rt.images.mu.Lock()
	defer rt.images.mu.Unlock()
	return rt.images.put(pulled).ID, nil
}

// pull asks Config.Pull, for as long as the call and the runtime last.
func (rt *Runtime) pull(ctx context.Context, name string, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig) (pulled Image, err error) {
	bounded, cancel := rt.currentLife().bound(ctx)
	defer cancel()
	within, stop := context.WithCancelCause(bounded)
	defer stop(nil)
	stalled := &callError{
		code:  codes.Canceled,
		text:  fmt.Sprintf("failed to pull and unpack image %q: no progress for %v: context canceled", name, rt.cfg.PullProgressTimeout),
		cause: context.Canceled,
	}
	p := rt.pulls.begin(name, rt.cfg.PullProgressTimeout, func() { stop(stalled) })
	defer p.end()
	err = rt.hook("Config.Pull", func() (err error) {
		pulled, err = rt.cfg.Pull(context.WithValue(within, pullKey{}, p), clone(image), clone(auth))
		return err
	})
	switch {
	case context.Cause(within) == error(stalled):
		return Image{}, stalled
	case err != nil:
		return Image{}, interceptError(bounded, err)
	case bounded.Err() != nil:
		return Image{}, callEnded(bounded)
	}
	return pulled, nil
}
