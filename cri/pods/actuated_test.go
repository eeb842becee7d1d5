package pods

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/pleg"
)

// What is recorded survives a restart and damage, and nothing else does.
func TestActuatedFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "actuated")
	var logged bytes.Buffer
	open := func() ActuatedStore {
		store, err := NewActuatedFolder(ActuatedFolderConfig{Dir: dir, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		require.NoError(t, err)
		return store
	}
	r := ActuatedResources{}.withContainer("a", needs(100, 1))
	r.Pod = ptr(needs(1, 1))
	for _, store := range []ActuatedStore{NewActuatedMemory(), open()} {
		got, err := store.Load("1")
		require.NoError(t, err)
		require.True(t, got.Empty())
		require.NoError(t, store.Save("1", r))
		got, err = store.Load("1")
		require.NoError(t, err)
		require.Equal(t, r, got)
	}
	again, err := open().Load("1")
	require.NoError(t, err)
	require.True(t, sameRequirements(r.Containers["a"], again.Containers["a"]))
	require.True(t, samePodRequirements(r.Pod, again.Pod))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "1.json"), []byte("{"), 0o600))
	require.Empty(t, logged.String())
	store := open()
	for range 2 {
		damaged, err := store.Load("1")
		require.NoError(t, err)
		require.True(t, damaged.Empty())
	}
	require.Equal(t, 1, strings.Count(logged.String(), "file="+filepath.Join(dir, "1.json")), "said once: %s", &logged)
	require.NoError(t, store.Save("1", ActuatedResources{}))
	require.NoError(t, store.Save("1", ActuatedResources{}), "nothing to drop")
	require.Empty(t, files(t, dir, "*"))
	for _, bad := range []string{"", "../x", "a/b"} {
		require.Error(t, store.Save(types.UID(bad), r), bad)
		_, err := store.Load(types.UID(bad))
		require.Error(t, err, bad)
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "2.json"), 0o700))
	_, err = store.Load("2")
	require.Error(t, err, "what cannot be read is not nothing")
	_, err = NewActuatedFolder(ActuatedFolderConfig{})
	require.ErrorContains(t, err, "Dir")
}

// A damaged record restarts nothing, not even a container that is restarted to get
// other resources: what the runtime reports counts. A resize after it works.
func TestDamagedActuated(t *testing.T) {
	h, _, pod := resizeHarness(t)
	dir := t.TempDir()
	pod.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{
		{ResourceName: v1.ResourceCPU, RestartPolicy: v1.RestartContainer}, {ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer},
	}
	before := h.status(pod)
	require.NoError(t, os.WriteFile(filepath.Join(dir, string(pod.UID)+".json"), []byte(`{"containers":`), 0o600))
	var err error
	h.cfg.Actuated, err = NewActuatedFolder(ActuatedFolderConfig{Dir: dir})
	require.NoError(t, err)
	h.restart()
	h.mustSync(pod)
	after := h.mustSync(pod)
	require.Len(t, after.Containers, len(before.Containers))
	for i := range before.Containers {
		require.Equal(t, before.Containers[i].ID, after.Containers[i].ID)
		require.Equal(t, pleg.StateRunning, after.Containers[i].State)
	}
	pod.Spec.Containers[0].Resources = needs(200, 64)
	h.mustSync(pod)
	require.NotEqual(t, before.Newest("a").ID, h.status(pod).Newest("a").ID)
	record, err := h.cfg.Actuated.Load(pod.UID)
	require.NoError(t, err)
	require.True(t, sameRequirements(needs(200, 64), record.Containers["a"]))
}

// A pod that is gone leaves no record.
func TestForgetDropsActuated(t *testing.T) {
	h, _, pod := resizeHarness(t)
	got, err := h.cfg.Actuated.Load(pod.UID)
	require.NoError(t, err)
	require.Len(t, got.Containers, 2)
	require.NoError(t, h.garbage.RemovePod(t.Context(), pod.UID, stopAll(t, h, pod)))
	got, err = h.cfg.Actuated.Load(pod.UID)
	require.NoError(t, err)
	require.True(t, got.Empty())
}

type forgetfulImages struct {
	presentImages
	forgotten []types.UID
}

func (f *forgetfulImages) Forget(pod types.UID) { f.forgotten = append(f.forgotten, pod) }

// Nor does it leave anything where its images came from.
func TestForgetReachesImages(t *testing.T) {
	h := newHarness(t, fake.Config{})
	images := &forgetfulImages{}
	h.cfg.Images = images
	h.restart()
	pod := testPod("a")
	h.mustSync(pod)
	require.Empty(t, images.forgotten)
	require.NoError(t, h.garbage.RemovePod(t.Context(), pod.UID, stopAll(t, h, pod)))
	require.Equal(t, []types.UID{pod.UID}, images.forgotten)
}
