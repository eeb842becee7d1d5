package checkpoint_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/podworkers/stages/stagestest"
	"github.com/podwright/podwright/status/checkpoint"
)

func TestStage(t *testing.T) {
	stagestest.Run(t, func(t testing.TB) stagestest.Subject {
		dir := t.TempDir()
		file := func(uid types.UID) string { return filepath.Join(dir, string(uid), "status.json") }
		part := func(suffix string) func(*v1.Pod) error {
			return func(pod *v1.Pod) error {
				if err := os.MkdirAll(filepath.Dir(file(pod.UID)), 0o700); err != nil {
					return err
				}
				return os.WriteFile(file(pod.UID)+suffix, []byte("{"), 0o600)
			}
		}
		var store *checkpoint.Store
		return stagestest.Subject{
			Open: func() (stages.Stage, error) {
				var err error
				store, err = checkpoint.New(checkpoint.Config{File: file})
				require.NoError(t, err)
				return checkpoint.NewStage(store, func(context.Context) (uids []types.UID, err error) {
					entries, err := os.ReadDir(dir)
					for _, e := range entries {
						uids = append(uids, types.UID(e.Name()))
					}
					return uids, err
				})
			},
			Use: func(_ stages.Stage, pod *v1.Pod) error {
				if err := os.MkdirAll(filepath.Dir(file(pod.UID)), 0o700); err != nil {
					return err
				}
				return store.Save(pod.UID, checkpoint.Record{Status: v1.PodStatus{Phase: v1.PodRunning}})
			},
			Holds: func(uid types.UID) bool {
				files, err := filepath.Glob(file(uid) + "*")
				return err != nil || len(files) > 0
			},
			Halfway: map[string]func(*v1.Pod) error{
				"a partial file": part(".tmp"), "an unreadable file": part(""), "a renamed file": part(".corrupt"),
			},
		}
	})
}

func TestStageListsPods(t *testing.T) {
	store, err := checkpoint.New(checkpoint.Config{File: func(types.UID) string { return "/nowhere" }})
	require.NoError(t, err)
	_, err = checkpoint.NewStage(store, nil)
	require.EqualError(t, err, "checkpoint: NewStage: pods is required")
	s, err := checkpoint.NewStage(store, func(context.Context) ([]types.UID, error) { return nil, os.ErrPermission })
	require.NoError(t, err)
	_, err = s.Leftovers(t.Context())
	require.ErrorIs(t, err, os.ErrPermission)
}
