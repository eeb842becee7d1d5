package pods

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/podworkers/stages/stagestest"
)

func TestLogStage(t *testing.T) {
	stagestest.Run(t, func(t testing.TB) stagestest.Harness {
		dir := t.TempDir()
		cfg := LogStageConfig{LogRoot: filepath.Join(dir, "logs"), LinkDir: filepath.Join(dir, "links")}
		require.NoError(t, os.Mkdir(cfg.LinkDir, 0o700))
		logs := func(pod *v1.Pod) error {
			container := filepath.Join(LogDir(cfg.LogRoot, pod.Namespace, pod.Name, pod.UID), "c")
			return errors.Join(os.MkdirAll(container, 0o700), os.WriteFile(filepath.Join(container, "0.log"), nil, 0o600))
		}
		link := func(pod *v1.Pod) error {
			err := os.Symlink(filepath.Join(LogDir(cfg.LogRoot, pod.Namespace, pod.Name, pod.UID), "c", "0.log"), filepath.Join(cfg.LinkDir, string(pod.UID)+".log"))
			if errors.Is(err, os.ErrExist) {
				err = nil
			}
			return err
		}
		return stagestest.Harness{
			Open: func() (stages.Stage, error) { return NewLogStage(cfg) },
			Use:  func(_ stages.Stage, pod *v1.Pod) error { return errors.Join(logs(pod), link(pod)) },
			Holds: func(uid types.UID) bool {
				found, err := filepath.Glob(filepath.Join(cfg.LogRoot, "*_"+string(uid)))
				_, linkErr := os.Lstat(filepath.Join(cfg.LinkDir, string(uid)+".log"))
				return err != nil || len(found) > 0 || linkErr == nil
			},
			Halfway: map[string]func(*v1.Pod) error{
				"logs without links": logs,
				"an empty directory": func(pod *v1.Pod) error {
					return os.MkdirAll(LogDir(cfg.LogRoot, pod.Namespace, pod.Name, pod.UID), 0o700)
				},
			},
		}
	})
}

func TestLogStageLeavesOtherFilesAlone(t *testing.T) {
	dir := t.TempDir()
	_, err := NewLogStage(LogStageConfig{LogRoot: "logs"})
	require.ErrorContains(t, err, "LogStageConfig.LogRoot")
	s, err := NewLogStage(LogStageConfig{LogRoot: dir})
	require.NoError(t, err)
	for _, other := range []string{"kube", "a_b_"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, other), 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ns_file_1"), nil, 0o600))
	left, err := s.Leftovers(t.Context())
	require.NoError(t, err)
	require.Empty(t, left)
	for _, uid := range []types.UID{"", "1", "kube"} {
		require.NoError(t, s.Release(t.Context(), uid))
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 3)
}
