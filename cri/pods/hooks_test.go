package pods

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/cri/pods/resize"
)

// handlers is a Hooks made of a function.
type handlers func(ctx context.Context, container, id string) (string, error)

func (f handlers) Run(ctx context.Context, _ *v1.Pod, c *v1.Container, id string, _ *v1.LifecycleHandler) (string, error) {
	return f(ctx, c.Name, id)
}

func withPostStart(pod *v1.Pod) *v1.Pod {
	pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 3}}}
	return pod
}

// messages collects events with their texts.
func (h *harness) messages() *[]string {
	var mu sync.Mutex
	out := &[]string{}
	h.cfg.Event = func(ref v1.ObjectReference, eventtype, reason, message string) {
		mu.Lock()
		defer mu.Unlock()
		*out = append(*out, fmt.Sprintf("%s %s %s: %s", eventtype, reason, ref.FieldPath, message))
	}
	h.restart()
	return out
}

// postStart blocks the rest of the sync, and uses no start slot meanwhile.
func TestPostStartBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, fake.Config{})
		h.cfg.MaxConcurrentStarts = 1
		ran := ""
		h.cfg.Hooks = handlers(func(_ context.Context, _, id string) (string, error) {
			ran = id
			require.Equal(t, 1, h.m.gate.free)
			time.Sleep(3 * s)
			return "", nil
		})
		h.restart()
		begin := time.Now()
		var startedB time.Duration
		h.runtime.before = func(_ context.Context, call, target string) error {
			if call == "CreateContainer" && strings.HasPrefix(target, "b/") {
				startedB = time.Since(begin)
			}
			return nil
		}
		status := h.mustSync(withPostStart(testPod("a", "b")))
		require.Equal(t, 3*s, startedB)
		require.Equal(t, status.Newest("a").ID.ID, ran)
	})
}

// A failed postStart handler stops its container, with its grace period, and no other. Its output
// is in no event.
func TestPostStartFails(t *testing.T) {
	h := newHarness(t, fake.Config{})
	failing := errors.New("exit code 3")
	h.cfg.Hooks = handlers(func(context.Context, string, string) (string, error) {
		return "password: 1234", failing
	})
	events := h.messages()
	pod := withPostStart(testPod("a", "b"))
	require.ErrorIs(t, h.sync(pod).Err(), failing)
	require.Equal(t, map[string]podwright.Reason{"a": {Reason: "PostStartHookError", Message: "PostStartHook failed"}}, h.m.StartFailures(pod.UID))
	require.Equal(t, []string{
		"RunPodSandbox web/0", "CreateContainer a/0", "StartContainer a", "StopContainer a 30s", "CreateContainer b/0", "StartContainer b",
	}, h.runtime.take())
	require.Contains(t, *events, "Warning FailedPostStartHook spec.containers{a}: PostStartHook failed")
	require.NotContains(t, strings.Join(*events, "\n"), "1234")

	h.m.clearFailure(pod.UID, "a")
	h.cfg.Hooks = nil
	h.restart()
	h.sync(pod)
	require.Equal(t, "PostStartHookError", h.m.StartFailures(pod.UID)["a"].Reason, "without a runner")
}

// W31 for hooks: the deletion of the pod cancels the hook, which does not count as a failure.
func TestPostStartCancelled(t *testing.T) {
	h := newHarness(t, fake.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	h.cfg.Hooks = handlers(func(ctx context.Context, _, _ string) (string, error) {
		cancel()
		<-ctx.Done()
		return "", ctx.Err()
	})
	h.restart()
	pod := withPostStart(testPod("a", "b"))
	require.ErrorIs(t, h.m.SyncPod(ctx, SyncRequest{Pod: pod, Status: h.status(pod)}).Err(), context.Canceled)
	require.Empty(t, h.m.StartFailures(pod.UID))
	require.NotContains(t, h.takeEvents(), "FailedPostStartHook spec.containers{a}")
	require.Equal(t, []string{"RunPodSandbox web/0", "CreateContainer a/0", "StartContainer a"}, h.runtime.take())
}

// Section 6.3: the errors of PreCreate and PreStart, and their order among the steps.
func TestCreateAndStartHooks(t *testing.T) {
	h := newHarness(t, fake.Config{})
	var order []string
	fails := ""
	step := func(name string) error {
		require.Equal(t, h.m.cfg.MaxConcurrentStarts, h.m.gate.free, "hooks take their time without a place")
		order = append(order, name)
		if name == fails {
			return errors.New("no CPU is free")
		}
		return nil
	}
	h.cfg.PreCreate = func(_ context.Context, _ *v1.Pod, c *v1.Container, config *runtimeapi.ContainerConfig) error {
		config.Linux.Resources.CpusetCpus = "2-3"
		return step("pre-create " + c.Name)
	}
	h.cfg.PreStart = func(_ context.Context, _ *v1.Pod, c *v1.Container, id string) error {
		require.NotEmpty(t, id)
		return step("pre-start " + c.Name)
	}
	h.restart()
	h.runtime.before = func(_ context.Context, call, _ string) error {
		order = append(order, call)
		return nil
	}
	for reason, at := range map[string]string{"PreCreateHookError": "pre-create a", "PreStartHookError": "pre-start a", "": ""} {
		order, fails = nil, at
		pod := testPod("a")
		pod.UID += "-" + pod.UID[:1]
		result := h.sync(pod)
		require.Equal(t, reason, h.m.StartFailures(pod.UID)["a"].Reason)
		steps := []string{"RunPodSandbox", "pre-create a", "CreateContainer", "pre-start a", "StartContainer"}
		if at == "" {
			require.NoError(t, result.Err())
			require.Equal(t, steps, order)
		} else {
			require.Equal(t, steps[:slices.Index(steps, at)+1], order)
			require.Contains(t, h.takeEvents(), "Failed spec.containers{a}")
		}
		stopAll(t, h, pod)
		require.NoError(t, h.garbage.RemovePod(t.Context(), pod.UID, h.status(pod)))
		require.Equal(t, h.m.cfg.MaxConcurrentStarts, h.m.gate.free)
	}
}

func TestMetricsOfStarts(t *testing.T) {
	h := newHarness(t, fake.Config{})
	var counted []string
	h.cfg.Metrics = Metrics{
		OnSandboxStart: func(handler string, _ time.Duration, err error) {
			counted = append(counted, fmt.Sprintf("sandbox %q %v", handler, err))
		},
		OnContainerStart: func(kind ContainerKind, reason string) { counted = append(counted, fmt.Sprintf("%s %q", kind, reason)) },
	}
	h.restart()
	pod := initPod(testPod("a"), "s0")
	pod.Spec.InitContainers[0].SecurityContext = &v1.SecurityContext{RunAsNonRoot: new(true)}
	h.sync(pod)
	require.Equal(t, []string{`sandbox "" <nil>`, `init_container "CreateContainerConfigError"`}, counted)
}

// V34, KEP-4639: a volume's image is pulled once, before the first container that mounts it; its
// failure affects only the containers that mount it. No image is requested if no container
// starts.
func TestImageVolumes(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a", "b", "c")
	pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "data:1", PullPolicy: v1.PullAlways}}}}
	for _, i := range []int{0, 2} {
		pod.Spec.Containers[i].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/data"}}
	}
	var asked []string
	var missing []int
	refused := true
	h.images.fail = func(r images.Request) error {
		asked = append(asked, imageOf(r))
		missing = append(missing, r.Missing)
		require.Equal(t, !refused, r.Running)
		if r.Volume != nil && refused {
			return &images.Error{Reason: images.ReasonErrImagePull, Message: "no such image"}
		}
		return nil
	}
	require.Error(t, h.sync(pod).Err())
	want := podwright.Reason{Reason: "ErrImagePull", Message: "image of volume v: no such image"}
	require.Equal(t, map[string]podwright.Reason{"a": want, "c": want}, h.m.StartFailures(pod.UID))
	require.Equal(t, []string{"data:1", "busybox"}, asked, "once for both")
	require.Equal(t, []int{3, 3}, missing)
	require.Len(t, h.status(pod).Running(), 1)

	refused, missing = false, nil
	require.Len(t, h.mustSync(pod).Running(), 3)
	require.Equal(t, []int{2, 2, 1}, missing, "the image of the volume, a, c")
	a, err := h.runtime.ContainerStatus(t.Context(), h.status(pod).Newest("a").ID.ID, false)
	require.NoError(t, err)
	mount := a.Status.Mounts[slices.IndexFunc(a.Status.Mounts, func(m *runtimeapi.Mount) bool { return m.ContainerPath == "/data" })]
	require.Equal(t, "data:1", mount.Image.Image)
	asked = nil
	h.mustSync(pod)
	require.Empty(t, asked)
}

// TestActuatedFails covers an unreadable and an unwritable store.
func TestActuatedFails(t *testing.T) {
	h := newHarness(t, fake.Config{})
	store := &brokenStore{Store: resize.NewMemory()}
	h.cfg.Actuated = store
	h.restart()
	pod := testPod("a")
	pod.Spec.Containers[0].Resources.Requests = quantities("cpu", "1")
	store.save = errors.New("disk full")
	require.ErrorIs(t, h.sync(pod).Err(), store.save)
	require.Equal(t, ReasonCreateContainerConfigError, h.m.StartFailures(pod.UID)["a"].Reason)
	store.load = errors.New("bad disk")
	result := h.sync(pod)
	require.ErrorIs(t, result.Err(), store.load)
	require.Empty(t, result.Entries, "no action on incomplete observations")
}

type brokenStore struct {
	resize.Store
	load, save error
}

func (b *brokenStore) Load(uid types.UID) (actions.Actuated, error) {
	if b.load != nil {
		return actions.Actuated{}, b.load
	}
	return b.Store.Load(uid)
}

func (b *brokenStore) Save(uid types.UID, r actions.Actuated) error {
	if b.save != nil {
		return b.save
	}
	return b.Store.Save(uid, r)
}

// Result.NotBefore returns the earliest time of all entries.
func TestNotBefore(t *testing.T) {
	now := time.Now()
	var r Result
	require.True(t, r.NotBefore().IsZero())
	r.add(ActionStartContainer, "a", &StartError{notBefore: now.Add(2 * s)})
	r.add(ActionStartContainer, "b", fmt.Errorf("b: %w", &StartError{notBefore: now.Add(s)}))
	r.add(ActionStartContainer, "c", &StartError{})
	r.add(ActionStartContainer, "d", nil)
	require.Equal(t, now.Add(s), r.NotBefore())
}

// The metrics count pods with user namespaces and with image volumes, by outcome.
func TestCounts(t *testing.T) {
	var refuse error
	h := newHarness(t, fake.Config{Intercept: func(_ context.Context, call string, _ any) error {
		if call == "CreateContainer" {
			return refuse
		}
		return nil
	}})
	var users []error
	var mounted []string
	h.cfg.Inputs.HandlerFeatures = func(*v1.Pod) request.HandlerFeatures { return request.HandlerFeatures{UserNamespaces: true} }
	h.cfg.Inputs.UserNamespace = func(*v1.Pod) (request.UserNamespace, error) {
		return request.UserNamespace{HostID: 65536, Length: 65536}, nil
	}
	h.cfg.Metrics = Metrics{
		OnUsersStart:  func(err error) { users = append(users, err) },
		OnImagesMount: func(n int, failed bool) { mounted = append(mounted, fmt.Sprint(n, failed)) },
	}
	h.restart()
	pod := testPod("a")
	pod.Spec.HostUsers = new(false)
	pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "data:1"}}}}
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/data"}}
	refuse = errors.New("ImageVolumeMountFailed: no overlay")
	require.Error(t, h.sync(pod).Err())
	require.Len(t, users, 1)
	require.ErrorIs(t, users[0], refuse)
	require.Equal(t, []string{"1 true"}, mounted)
	refuse = errors.New("no space left")
	require.Error(t, h.sync(pod).Err())
	require.Len(t, mounted, 1, "its outcome is unknown")
	refuse = nil
	h.mustSync(pod)
	require.Equal(t, []string{"1 true", "1 false"}, mounted)
	require.Len(t, users, 1, "the sandbox was there")
	users = nil
	h.sync(testPod("b"))
	require.Empty(t, users, "it has the node's")
}
