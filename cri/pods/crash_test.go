package pods

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/pleg/observed"
)

var errLost = errors.New("the answer was lost")

// A container that cannot be removed gets no second instance beside it, and does not block other
// containers.
func TestCreatedCannotBeRemoved(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a", "b")
	h.runtime.after = losing(2)
	h.sync(pod)
	h.runtime.after = nil
	stuck := h.status(pod).Newest("a").ID.ID
	h.restart()
	h.runtime.take()
	h.runtime.after = losing(1)
	require.ErrorIs(t, h.sync(pod).Err(), errLost)
	require.Equal(t, []string{"RemoveContainer a"}, h.runtime.take())
	h.runtime.after = nil
	status := h.mustSync(pod)
	require.NotEqual(t, stuck, status.Newest("a").ID.ID)
	require.Len(t, status.Running(), 2)
}

// A start whose response was lost may take effect after the observation of a created container:
// the container is then not replaced, and its log stays.
func TestLateStartIsKept(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a")
	h.runtime.before = failing("StartContainer", "", errLost)
	require.ErrorIs(t, h.sync(pod).Err(), errLost)
	h.runtime.before = nil
	before := h.status(pod)
	id := before.Newest("a").ID.ID
	require.NoError(t, h.runtime.RuntimeService.StartContainer(t.Context(), id))

	require.ErrorIs(t, h.m.SyncPod(t.Context(), SyncRequest{Pod: pod, Status: before}).Err(), garbage.ErrRunning)
	status := h.mustSync(pod)
	require.Len(t, status.Containers, 1)
	require.Equal(t, id, status.Running()[0].ID.ID)
	require.FileExists(t, status.Running()[0].LogPath)
}

// If the runtime refuses to remove a container that a dead agent was starting, and completes the
// start, the container's log stays.
func TestLogOfLateStartStays(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a")
	h.runtime.before = failing("StartContainer", "", errLost)
	require.ErrorIs(t, h.sync(pod).Err(), errLost)
	created := h.status(pod).Newest("a")
	require.NoError(t, os.MkdirAll(filepath.Dir(created.LogPath), 0o755))
	require.NoError(t, os.WriteFile(created.LogPath, nil, 0o644), "the runtime opens the log early in a start")
	h.runtime.before = func(_ context.Context, call, _ string) error {
		if call == "RemoveContainer" {
			require.FileExists(t, created.LogPath)
			require.NoError(t, h.runtime.RuntimeService.StartContainer(t.Context(), created.ID.ID))
			return errLost
		}
		return nil
	}
	require.ErrorIs(t, h.sync(pod).Err(), errLost)
	h.runtime.before = nil
	status := h.mustSync(pod)
	require.Equal(t, created.ID, status.Running()[0].ID)
	require.FileExists(t, status.Running()[0].LogPath)
}

// RemovePod also removes the log directory of a pod whose sandbox was never created.
func TestLogDirWithoutSandboxGoes(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a")
	h.runtime.before = func(context.Context, string, string) error { return errLost }
	require.ErrorIs(t, h.sync(pod).Err(), errLost)
	h.runtime.before = nil
	dir := h.m.files.LogDir(identityOf(pod).Pod)
	other := LogDir(h.m.cfg.LogRoot, "ns", "other", "other-"+pod.UID)
	require.DirExists(t, dir)
	require.NoError(t, os.Mkdir(other, 0o755))
	require.NoError(t, h.garbage.RemovePod(t.Context(), pod.UID, h.status(pod)))
	require.NoDirExists(t, dir)
	require.DirExists(t, other)
}

// dieAfter simulates the death of the agent at the nth call that changes state: the call takes
// effect, and later calls have none. died reports whether the nth call was made.
func (h *harness) dieAfter(n int) (died func() bool) {
	var mu sync.Mutex // containers are stopped concurrently
	seen, dead := 0, false
	h.runtime.before = func(context.Context, string, string) error {
		mu.Lock()
		defer mu.Unlock()
		if dead {
			return errLost
		}
		return nil
	}
	h.runtime.after = func(string, string) error {
		mu.Lock()
		defer mu.Unlock()
		if seen++; seen == n {
			dead = true
		}
		if dead {
			return errLost
		}
		return nil
	}
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return dead
	}
}

// reborn starts the next agent.
func (h *harness) reborn() {
	h.runtime.before, h.runtime.after = nil, nil
	h.restart()
}

// settle syncs until a sync makes no change.
func settle(t *testing.T, h *harness, pod *v1.Pod) *observed.Pod {
	t.Helper()
	for range 20 {
		synctest.Wait()
		h.runtime.take()
		result := h.sync(pod)
		if at := result.NotBefore(); !at.IsZero() { // two reboots in a row are a crash loop
			time.Sleep(time.Until(at))
			continue
		}
		require.NoError(t, result.Err())
		if !result.Acted() && result.Explanation() == "" {
			return h.status(pod)
		}
	}
	t.Fatal("it does not settle")
	return nil
}

// requireUp checks that a pod with containers of every kind is complete. With lost, instances of
// completed init containers may be missing.
func requireUp(t *testing.T, status *observed.Pod, lost bool) {
	t.Helper()
	current := status.Sandboxes[0].ID
	for _, name := range []string{"s1", "a", "b"} {
		require.Len(t, instances(status, name, observed.StateRunning), 1, name)
		require.Equal(t, current, status.Newest(name).SandboxID, name)
	}
	for _, name := range []string{"i0", "i2"} {
		if lost && status.Newest(name) == nil {
			continue
		}
		require.Len(t, instances(status, name, observed.StateExited), 1, name)
		require.Equal(t, current, status.Newest(name).SandboxID, "the network of %s", name)
		for _, regular := range []string{"a", "b"} {
			require.False(t, status.Newest(regular).StartedAt.Before(status.Newest(name).FinishedAt), "%s before %s", regular, name)
		}
	}
	for _, c := range status.Containers {
		require.NotEqual(t, observed.StateCreated, c.State, c.Name)
	}
}

// If the agent dies at any call during a restart of all containers, the restart completes,
// possibly more than once, and the containers run.
func TestDeathWhileRestartingAll(t *testing.T) {
	for n := range 5 {
		synctest.Test(t, func(t *testing.T) {
			ended := false
			once := func(ctx context.Context, p *fake.Process) int {
				if !ended {
					ended = true
					return 42
				}
				return fake.SleepUntilStopped(ctx, p)
			}
			h := newHarness(t, fake.Config{Programs: programs(map[string]fake.Program{"i0": fake.Exit(0), "a": once})})
			pod := initPod(testPod("a", "b"), "i0", "s1")
			restartsAllOn(&pod.Spec.Containers[0], 42)
			for range 4 {
				h.mustSync(pod)
				synctest.Wait()
				if c := h.status(pod).Newest("a"); c != nil && c.State == observed.StateExited {
					break
				}
			}
			require.Equal(t, observed.StateExited, h.status(pod).Newest("a").State)
			h.dieAfter(n + 1)
			h.sync(pod)
			h.reborn()
			status := settle(t, h, pod)
			for _, name := range strings.Fields("i0 s1 a b") {
				require.EqualValues(t, 1, status.Newest(name).RestartCount, name)
			}
			require.Len(t, status.Running(), 3)
		})
	}
}

func restartsAllOn(c *v1.Container, code int32) {
	c.RestartPolicy = new(v1.ContainerRestartPolicyNever)
	c.RestartPolicyRules = []v1.ContainerRestartRule{{
		Action:    v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{code}},
	}}
}

// FuzzSync applies a story of syncs, agent deaths, reboots, exits, edits and lost containers to a
// pod with containers of every kind; each byte is an event. A container never runs twice at a
// time, and in the end the pod is complete.
func FuzzSync(f *testing.F) {
	for _, story := range []string{"", "\x00\x00\x00\x00", "\x01\x09\x11\x19\x21", "\x00\x00\x00\x02\x00\x00\x03\x0b\x13\x06\x00", "\x00\x00\x00\x07\x0f\x00\x04\x05\x0d\x29\x31\x02\x39"} {
		f.Add([]byte(story))
	}
	// Deaths at any call during the start of the pod, the replacement of a container, and after a
	// reboot.
	up := make([]byte, 6)
	for n := range byte(6) {
		f.Add(slices.Concat(up, []byte{4, 1 + 8*n}))
		for syncs := range 6 {
			death := append(make([]byte, syncs), 1+8*n)
			f.Add(death)
			f.Add(slices.Concat(up, []byte{2}, death))
		}
	}
	f.Fuzz(func(t *testing.T, story []byte) {
		if len(story) > 24 {
			return
		}
		synctest.Test(t, func(t *testing.T) { play(t, story) })
	})
}

func play(t *testing.T, story []byte) {
	h := newHarness(t, initEnds())
	h.cfg.MaxCrashLoopDelay = s
	h.restart()
	pod := withEphemeral(initPod(testPod("a", "b"), "i0", "s1", "i2"), "debug", "")
	for _, b := range story {
		h.event(pod, b%8, int(b/8))
		synctest.Wait()
		requireNoneTwice(t, h.status(pod))
	}
	requireUp(t, settle(t, h, pod), slices.ContainsFunc(story, func(b byte) bool { return b%8 == 7 }))
}

// event applies one event of a story. n selects its container or its time.
func (h *harness) event(pod *v1.Pod, kind byte, n int) {
	runtime, ctx, status := h.runtime.RuntimeService, h.t.Context(), h.status(pod)
	switch kind {
	case 1:
		h.dieAfter(n%6 + 1)
		h.sync(pod)
		h.reborn()
	case 2:
		if len(status.Sandboxes) > 0 {
			require.NoError(h.t, runtime.StopPodSandbox(ctx, status.Sandboxes[0].ID))
		}
	case 3:
		if up := status.Running(); len(up) > 0 {
			require.NoError(h.t, runtime.StopContainer(ctx, up[n%len(up)].ID.ID, 0))
		}
	case 4:
		pod.Spec.Containers[n%2].Image += "x"
	case 5:
		pod.Spec.InitContainers[1].Image += "x"
	case 6:
		time.Sleep(time.Duration(n) * s)
	case 7:
		for _, name := range []string{"i0", "i2", "a"}[n%3:] {
			if c := status.Newest(name); c != nil && c.State == observed.StateExited {
				require.NoError(h.t, runtime.RemoveContainer(ctx, c.ID.ID))
				return
			}
		}
	default:
		h.sync(pod)
	}
}

func requireNoneTwice(t *testing.T, status *observed.Pod) {
	t.Helper()
	seen := map[string]bool{}
	for _, c := range status.Running() {
		require.False(t, seen[c.Name], "%s runs twice", c.Name)
		seen[c.Name] = true
	}
	require.LessOrEqual(t, readySandboxes(status), 1)
}
