package pods

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/garbage"
)

var errLost = errors.New("the answer was lost")

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
