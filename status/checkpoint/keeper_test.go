package checkpoint_test

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status/checkpoint"
)

func TestKeeper(t *testing.T) {
	dir := t.TempDir()
	store, err := checkpoint.New(checkpoint.Config{File: func(uid types.UID) string { return filepath.Join(dir, string(uid), "status.json") }})
	require.NoError(t, err)
	_, err = checkpoint.NewKeeper(checkpoint.KeeperConfig{})
	require.ErrorContains(t, err, "KeeperConfig.Store")
	var log bytes.Buffer
	results := probe.Results{{Container: "app", ContainerID: "fake://1", Type: probe.Liveness, Result: probe.Failure}}
	k, err := checkpoint.NewKeeper(checkpoint.KeeperConfig{
		Store: store, Probes: func(types.UID) probe.Results { return results }, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		HeldBack: func(uid types.UID) map[string]string { return map[string]string{"app": string(uid) + "/key"} },
	})
	require.NoError(t, err)
	pod, file := &v1.Pod{}, filepath.Join(dir, "u1", "status.json")
	pod.UID = "u1"
	save := func() error { return k.Save(t.Context(), pod, &v1.PodStatus{Phase: v1.PodRunning}) }

	require.Equal(t, checkpoint.StateUnseen, k.State("u1"))
	require.NoError(t, save())
	require.NoFileExists(t, file, "no Recall yet")
	require.Nil(t, k.Recall("u1"))
	require.Equal(t, checkpoint.StateKept, k.State("u1"))
	require.NoError(t, save(), "a missing folder is no error")
	require.Empty(t, log.String())
	running := v1.ContainerStatus{State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
	for range 2 {
		require.NoError(t, k.Save(t.Context(), pod, &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{running}}))
	}
	require.Equal(t, 1, strings.Count(log.String(), filepath.Dir(file)), log.String())
	log.Reset()
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o750))
	require.NoError(t, save())
	require.Equal(t, &checkpoint.Record{Status: v1.PodStatus{Phase: v1.PodRunning}, Probes: results, HeldBack: map[string]string{"app": "u1/key"}}, k.Recall("u1"))

	require.NoError(t, k.Forget("u1"))
	require.Equal(t, checkpoint.StateForgotten, k.State("u1"))
	require.NoError(t, save())
	require.NoFileExists(t, file, "Save after Forget stores no record")
	require.Nil(t, k.Recall("u1"), "the next pod with the UID")
	require.NoError(t, save())
	k.Prune(func(types.UID) bool { return false })
	require.Empty(t, k.Pods())
	require.FileExists(t, file)
	require.Empty(t, log.String())

	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	require.Nil(t, k.Recall("u1"))
	require.Contains(t, log.String(), file)
	require.NoError(t, os.MkdirAll(filepath.Join(file+".tmp", "x"), 0o750))
	var failed *fs.PathError
	require.ErrorAs(t, save(), &failed, "the caller retries")
}
