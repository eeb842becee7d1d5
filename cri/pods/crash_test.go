package pods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/pleg"
)

var errLost = errors.New("the answer was lost")

// One crash at each call that changes something: the effect is there, the answer is not, and
// a new agent finds its way from there. Each container ends up with exactly one instance, in
// one sandbox.
func TestCrashAfterEachCall(t *testing.T) {
	replaced := func(t *testing.T, h *harness, pod *v1.Pod, sandbox bool) {
		status := h.mustSync(pod)
		pod.Spec.Containers[1].Image = "busybox:next"
		if sandbox {
			require.NoError(t, h.runtime.RuntimeService.StopPodSandbox(t.Context(), status.Sandboxes[0].ID))
		}
	}
	for name, tc := range map[string]struct {
		calls int
		begin func(t *testing.T, h *harness, pod *v1.Pod)
	}{
		"new pod":            {5, func(*testing.T, *harness, *v1.Pod) {}},
		"container replaced": {3, func(t *testing.T, h *harness, pod *v1.Pod) { replaced(t, h, pod, false) }},
		"sandbox replaced":   {6, func(t *testing.T, h *harness, pod *v1.Pod) { replaced(t, h, pod, true) }},
	} {
		for n := 1; n <= tc.calls; n++ {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				h := newHarness(t, fake.Config{})
				pod := testPod("a", "b")
				tc.begin(t, h, pod)
				h.runtime.after = losing(n)
				require.ErrorIs(t, h.sync(pod).Err(), errLost)
				h.runtime.after = nil
				requireOneEach(t, h, pod)
			})
		}
	}
}

// requireOneEach lets a new agent sync until nothing is left to do, and looks.
func requireOneEach(t *testing.T, h *harness, pod *v1.Pod) {
	t.Helper()
	h.restart()
	var status *pleg.PodStatus
	for range 3 {
		status = h.mustSync(pod)
	}
	h.runtime.take()
	h.mustSync(pod)
	require.Empty(t, h.runtime.take(), "it has converged")
	require.Equal(t, 1, readySandboxes(status))
	for _, name := range []string{"a", "b"} {
		require.Len(t, instances(status, name, pleg.StateRunning), 1, name)
		require.Empty(t, instances(status, name, pleg.StateCreated), name)
	}
	require.Len(t, status.Running(), 2)
	for _, c := range status.Running() {
		require.Equal(t, status.Sandboxes[0].ID, c.SandboxID)
		require.FileExists(t, filepath.Join(h.dir, "containers", pod.Name+"_"+pod.Namespace+"_"+c.Name+"-"+c.ID.ID+".log"))
	}
}

// A container that was created but never started is replaced under the same
// number, and its successor in the logs is not skipped.
func TestCreatedIsReplaced(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a")
	h.runtime.after = losing(2)
	require.ErrorIs(t, h.sync(pod).Err(), errLost)
	require.Equal(t, ReasonCreateContainerError, h.m.StartFailures(pod.UID)["a"].Reason)
	h.runtime.after = nil
	h.runtime.take()
	status := h.mustSync(pod)
	require.Equal(t, []string{"RemoveContainer a", "CreateContainer a/0", "StartContainer a"}, h.runtime.take())
	require.Len(t, status.Containers, 1)
	require.Equal(t, pleg.StateRunning, status.Containers[0].State)
	require.Empty(t, h.m.StartFailures(pod.UID))
}

// A container that cannot be removed is not started a second time beside it;
// the others are not held up.
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

// A start whose answer was lost takes effect after the look that found the
// container merely created: it is not replaced, and its log stays.
func TestLateStartIsKept(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a")
	h.runtime.before = failing("StartContainer", "", errLost)
	require.ErrorIs(t, h.sync(pod).Err(), errLost)
	h.runtime.before = nil
	before := h.status(pod)
	id := before.Newest("a").ID.ID
	require.NoError(t, h.runtime.RuntimeService.StartContainer(t.Context(), id))

	result := h.m.SyncPod(t.Context(), SyncRequest{Pod: pod, Status: before})
	require.ErrorIs(t, result.Err(), garbage.ErrRunning)
	status := h.mustSync(pod)
	require.Len(t, status.Containers, 1)
	require.Equal(t, id, status.Running()[0].ID.ID)
	require.FileExists(t, status.Running()[0].LogPath)
}

// The runtime refuses to remove a container that a dead agent was starting, and
// then comes to the end of the start: its log is still there.
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

// A pod whose sandbox was never made has logs nowhere but a directory for them,
// and nothing in the runtime tells the pod's name.
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
