package pods

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/pleg/plegtest"
)

// hand changes pods for the conformance suite of package plegtest. Its pods are copies of like.
type hand struct {
	*harness
	runtime cri.RuntimeService
	like    *v1.Pod
}

var _ plegtest.Pods = hand{}

func (h hand) pod(uid types.UID) *v1.Pod {
	pod := h.like.DeepCopy()
	pod.UID, pod.Name = uid, string(uid)
	return pod
}

func (h hand) Start(ctx context.Context, uid types.UID) error {
	status, err := h.seen.PodStatus(ctx, uid)
	if err != nil {
		return err
	}
	result := h.m.SyncPod(ctx, SyncRequest{Pod: h.pod(uid), Status: status})
	return result.Err()
}

func (h hand) Exit(ctx context.Context, uid types.UID) error {
	status, err := h.seen.PodStatus(ctx, uid)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range status.Running() {
		errs = append(errs, h.runtime.StopContainer(ctx, c.ID.ID, 0))
	}
	return errors.Join(errs...)
}

func (h hand) Remove(ctx context.Context, uid types.UID) error {
	status, err := h.seen.PodStatus(ctx, uid)
	if err != nil {
		return err
	}
	if result := h.m.KillPod(ctx, KillRequest{Status: status}); result.Err() != nil {
		return result.Err()
	}
	if status, err = h.seen.PodStatus(ctx, uid); err != nil {
		return err
	}
	return h.garbage.RemovePod(ctx, uid, status)
}

// plegRuntimes returns a runtime with events and one without.
func plegRuntimes() map[string]fake.Config {
	return map[string]fake.Config{"events": {}, "none": {Unimplemented: []string{"GetContainerEvents"}}}
}

// An Observer is a pleg.Runtime, on a runtime with events and on one without.
func TestPLEGRuntime(t *testing.T) {
	for name, cfg := range plegRuntimes() {
		t.Run(name, func(t *testing.T) {
			plegtest.Run(t, plegtest.Config{Around: synctest.Test, Start: func(t *testing.T) plegtest.Subject {
				h := newHarness(t, cfg)
				own, foreign := hand{h, h.runtime.RuntimeService, testPod("a", "b")}, hand{h.beside("other"), h.runtime.RuntimeService, testPod("a", "b")}
				return plegtest.Subject{Runtime: h.seen, Pods: own, Foreign: foreign}
			}})
		})
	}
}

func TestContainerdPLEGRuntime(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		own, foreign := hand{h, h.runtime.RuntimeService, pod}, hand{h.beside("other"), h.runtime.RuntimeService, pod}
		plegtest.Run(t, plegtest.Config{Start: func(*testing.T) plegtest.Subject {
			return plegtest.Subject{Runtime: h.seen, Pods: own, Foreign: foreign}
		}})
	})
}

// With 5 ms per call, a worker's last change is in the cache after two rounds of calls, lists and
// statuses, with events and without.
func TestFreshWithinTwoRounds(t *testing.T) {
	for name, cfg := range plegRuntimes() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg.Intercept = func(ctx context.Context, call string, _ any) error {
					if call != "GetContainerEvents" {
						time.Sleep(5 * time.Millisecond)
					}
					return nil
				}
				h := newHarness(t, cfg)
				r, err := plegtest.Bench{
					PLEG: pleg.Config{Runtime: h.seen}, Pods: hand{h, h.runtime.RuntimeService, testPod("a", "b")},
					Idle: 5, Watch: time.Second, Rounds: 5,
				}.Run(t.Context())
				require.NoError(t, err)
				require.Equal(t, 10*time.Millisecond, r.Fresh.Max)
				if name == "events" {
					require.LessOrEqual(t, r.SeenStart.Max, 20*time.Millisecond, "the look that an event of an earlier step started, and one more")
					require.LessOrEqual(t, r.SeenExit.Max, 20*time.Millisecond)
					require.LessOrEqual(t, r.SeenRemoval.Max, 20*time.Millisecond)
				}
			})
		})
	}
}

// An Observer reads back a Manager's names, hashes, logs with links, and the container's
// termination message.
func TestObserverSeesWhatWasMade(t *testing.T) {
	h := newHarness(t, fake.Config{Programs: fake.Always(func(ctx context.Context, p *fake.Process) int {
		code := fake.SleepUntilStopped(ctx, p)
		for _, m := range p.Mounts {
			if m.ContainerPath == "/dev/termination-log" {
				_ = os.WriteFile(m.HostPath, []byte("bye"), 0o600)
			}
		}
		return code
	})})
	pod := testPod("a")
	require.True(t, h.status(pod).Empty())
	got := h.mustSync(pod)
	require.Equal(t, "web", got.Name)
	require.Equal(t, got.Sandboxes[0].IPs, got.IPs)
	c := got.Containers[0]
	require.Equal(t, "a", c.Name)
	require.Equal(t, podfacts.Hash(&pod.Spec.Containers[0]), c.Hash)
	require.Equal(t, got.Sandboxes[0].ID, c.SandboxID)
	require.Equal(t, filepath.Join(h.dir, "pods", "shop_web_0d1e", "a", "0.log"), c.LogPath)
	target, err := os.Readlink(filepath.Join(h.dir, "containers", "web_shop_a-"+c.ID.ID+".log"))
	require.NoError(t, err)
	require.Equal(t, c.LogPath, target)
	list, err := h.seen.ListPods(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "shop/web", list[0].Namespace+"/"+list[0].Name)
	h.kill(pod, nil)
	got = h.status(pod)
	require.Empty(t, got.IPs)
	require.Equal(t, observed.StateExited, got.Containers[0].State)
	require.False(t, got.Containers[0].FinishedAt.IsZero())
	require.Equal(t, "bye", got.Containers[0].Message)
}

// A runtime whose call for events is unimplemented or missing has no events.
func TestNoEvents(t *testing.T) {
	h := newHarness(t, fake.Config{Unimplemented: []string{"GetContainerEvents"}})
	require.ErrorIs(t, h.seen.PodEvents(t.Context(), nil), pleg.ErrNoEvents)
	h.cfg.Runtime = struct{ Runtime }{h.runtime}
	h.restart()
	require.ErrorIs(t, h.seen.PodEvents(t.Context(), nil), pleg.ErrNoEvents)
}
