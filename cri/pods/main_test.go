package pods

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/testpods"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// presentImages has every image.
type presentImages struct {
	fail func(r images.Request) error
}

func (p *presentImages) Ensure(ctx context.Context, r images.Request) (images.Image, error) {
	if p.fail != nil {
		if err := p.fail(r); err != nil {
			return images.Image{}, err
		}
	}
	name := imageOf(r)
	return images.Image{Ref: name, UserSpecified: name}, ctx.Err()
}

func imageOf(r images.Request) string {
	if r.Volume != nil {
		return r.Volume.Image.Reference
	}
	return r.Container.Image
}

// recorder is a fake runtime that records the calls that change state. It can lose a response:
// the call takes effect, and the caller gets an error.
type recorder struct {
	cri.RuntimeService
	mu     sync.Mutex
	calls  []string
	before func(ctx context.Context, call, target string) error
	after  func(call, target string) error
}

func (r *recorder) around(ctx context.Context, call, target string, do func() error) error {
	r.mu.Lock()
	r.calls = append(r.calls, call+" "+target)
	before, after := r.before, r.after
	r.mu.Unlock()
	if before != nil {
		if err := before(ctx, call, target); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	if after != nil {
		return after(call, target)
	}
	return nil
}

// failing fails the calls of a kind whose target has a prefix, before they have an effect.
func failing(call, prefix string, err error) func(context.Context, string, string) error {
	return func(_ context.Context, got, target string) error {
		if got == call && strings.HasPrefix(target, prefix) {
			return err
		}
		return nil
	}
}

// losing loses the nth response: the call takes effect.
func losing(n int) func(call, target string) error {
	seen := 0
	return func(string, string) error {
		if seen++; seen == n {
			return errLost
		}
		return nil
	}
}

func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.calls
	r.calls = nil
	return out
}

func (r *recorder) name(ctx context.Context, id string) string {
	response, err := r.RuntimeService.ContainerStatus(ctx, id, false)
	if err != nil {
		return "?"
	}
	return response.Status.Metadata.Name
}

func (r *recorder) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (id string, err error) {
	target := fmt.Sprintf("%s/%d", config.Metadata.Name, config.Metadata.Attempt)
	err = r.around(ctx, "RunPodSandbox", target, func() (err error) {
		id, err = r.RuntimeService.RunPodSandbox(ctx, config, handler)
		return err
	})
	return id, err
}

func (r *recorder) StopPodSandbox(ctx context.Context, id string) error {
	return r.around(ctx, "StopPodSandbox", "", func() error { return r.RuntimeService.StopPodSandbox(ctx, id) })
}

func (r *recorder) RemovePodSandbox(ctx context.Context, id string) error {
	return r.around(ctx, "RemovePodSandbox", "", func() error { return r.RuntimeService.RemovePodSandbox(ctx, id) })
}

func (r *recorder) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (id string, err error) {
	target := fmt.Sprintf("%s/%d", config.Metadata.Name, config.Metadata.Attempt)
	err = r.around(ctx, "CreateContainer", target, func() (err error) {
		id, err = r.RuntimeService.CreateContainer(ctx, sandbox, config, sandboxConfig)
		return err
	})
	return id, err
}

func (r *recorder) StartContainer(ctx context.Context, id string) error {
	return r.around(ctx, "StartContainer", r.name(ctx, id), func() error { return r.RuntimeService.StartContainer(ctx, id) })
}

func (r *recorder) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	target := fmt.Sprintf("%s %v", r.name(ctx, id), grace)
	return r.around(ctx, "StopContainer", target, func() error { return r.RuntimeService.StopContainer(ctx, id, grace) })
}

func (r *recorder) RemoveContainer(ctx context.Context, id string) error {
	return r.around(ctx, "RemoveContainer", r.name(ctx, id), func() error { return r.RuntimeService.RemoveContainer(ctx, id) })
}

func testPod(names ...string) *v1.Pod { return testpods.New(names...) }

func quantities(pairs ...string) v1.ResourceList { return testpods.Quantities(pairs...) }

// harness is a Manager on a fake runtime in a temporary directory.
type harness struct {
	t       *testing.T
	dir     string
	runtime *recorder
	images  *presentImages
	cfg     Config
	m       *Manager
	seen    *observe.Observer
	garbage *garbage.Collector
	// ahead is the difference of the runtime's clock.
	ahead time.Duration

	mu     sync.Mutex
	events []string
}

func newHarness(t *testing.T, cfg fake.Config) *harness {
	t.Helper()
	cfg.AnyImage = true
	rt, err := fake.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	present := &presentImages{}
	h := harnessOn(t, rt, Config{RuntimeName: "fake", Images: present})
	h.images = present
	return h
}

// harnessOn is a harness on any runtime.
func harnessOn(t *testing.T, rt cri.RuntimeService, cfg Config) *harness {
	t.Helper()
	h := &harness{t: t, dir: t.TempDir(), runtime: &recorder{RuntimeService: rt}, cfg: cfg}
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "resolv.conf"), []byte("nameserver 10.0.0.1\nsearch example.org\n"), 0o600))
	h.cfg.Runtime = h.runtime
	h.cfg.Owner = cri.Owner{Name: "test"}
	h.cfg.LogRoot = filepath.Join(h.dir, "pods")
	h.cfg.LinkDir = filepath.Join(h.dir, "containers")
	h.cfg.PodDir = func(uid types.UID) string { return filepath.Join(h.dir, "kubelet", string(uid)) }
	h.cfg.Node.Name, h.cfg.Node.IPs = "node-1", []string{"192.0.2.1"}
	h.cfg.DNS.HostResolver = filepath.Join(h.dir, "resolv.conf")
	h.cfg.Event = func(ref v1.ObjectReference, _, reason, _ string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.events = append(h.events, reason+" "+ref.FieldPath)
	}
	h.restart()
	return h
}

// beside returns a harness with another owner and other files on the same runtime.
func (h *harness) beside(owner string) *harness {
	dir := h.t.TempDir()
	other := &harness{t: h.t, dir: dir, runtime: h.runtime, cfg: h.cfg}
	other.cfg.Owner, other.cfg.LogRoot = cri.Owner{Name: owner}, filepath.Join(dir, "pods")
	other.restart()
	return other
}

// restart simulates a crash of the agent: it makes a new Manager on the same runtime.
func (h *harness) restart() {
	h.t.Helper()
	var err error
	h.m, err = New(h.cfg)
	require.NoError(h.t, err)
	h.seen, err = observe.New(observe.Config{
		Runtime: h.cfg.Runtime, RuntimeName: h.cfg.RuntimeName, Owner: h.cfg.Owner, NodeIPs: func() []string { return h.cfg.Node.IPs },
	})
	require.NoError(h.t, err)
	h.garbage, err = garbage.New(garbage.Config{Runtime: h.cfg.Runtime, Pods: h.m})
	require.NoError(h.t, err)
}

func (h *harness) takeEvents() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.events
	h.events = nil
	return out
}

func (h *harness) status(pod *v1.Pod) *observed.Pod {
	h.t.Helper()
	status, err := h.seen.PodStatus(h.t.Context(), pod.UID)
	require.NoError(h.t, err)
	for i := range status.Containers {
		c := &status.Containers[i]
		for _, at := range []*time.Time{&c.CreatedAt, &c.StartedAt, &c.FinishedAt} {
			if !at.IsZero() {
				*at = at.Add(h.ahead)
			}
		}
	}
	return status
}

func (h *harness) sync(pod *v1.Pod) Result {
	h.t.Helper()
	return h.m.SyncPod(h.t.Context(), SyncRequest{Pod: pod, Status: h.status(pod)})
}

func (h *harness) mustSync(pod *v1.Pod) *observed.Pod {
	h.t.Helper()
	require.NoError(h.t, h.sync(pod).Err())
	return h.status(pod)
}

func (h *harness) kill(pod *v1.Pod, grace *int64) {
	h.t.Helper()
	require.NoError(h.t, h.m.KillPod(h.t.Context(), KillRequest{Pod: pod, Status: h.status(pod), GraceSeconds: grace}).Err())
}

func observedPod(sandbox *observed.Sandbox, containers ...observed.Container) *observed.Pod {
	s := &observed.Pod{UID: "0d1e", Containers: containers}
	if sandbox != nil {
		s.Sandboxes = []observed.Sandbox{*sandbox}
	}
	return s
}

// container returns an observed instance.
func container(name string, state observed.State, change ...func(*observed.Container)) observed.Container {
	c := observed.Container{
		ID: observed.ContainerID{Runtime: "fake", ID: name + "-" + state.String()}, Name: name, SandboxID: "s", State: state,
		Hash: podfacts.Hash(&v1.Container{Name: name, Image: "busybox"}),
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// instances returns the instances of a container in a state.
func instances(s *observed.Pod, name string, state observed.State) []observed.Container {
	var out []observed.Container
	for _, c := range s.Containers {
		if c.Name == name && c.State == state {
			out = append(out, c)
		}
	}
	return out
}

func readySandboxes(s *observed.Pod) (n int) {
	for _, sb := range s.Sandboxes {
		if sb.State == observed.SandboxReady {
			n++
		}
	}
	return n
}

// found returns a probe result of a container.
func found(c *observed.Container, t probe.Type, result probe.Verdict) probe.Results {
	return probe.Results{{Container: c.Name, ContainerID: c.ID.String(), Type: t, Result: result}}
}
