package pods

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/podworkers/stages/stagestest"
)

func TestUserStage(t *testing.T) {
	stagestest.Run(t, func(t testing.TB) stagestest.Harness {
		dir := t.TempDir()
		cfg := UserNamespacesConfig{PodDir: func(uid types.UID) string { return filepath.Join(dir, string(uid)) }}
		file := func(uid types.UID) string { return filepath.Join(cfg.PodDir(uid), "userns") }
		return stagestest.Harness{
			Open: func() (stages.Stage, error) {
				cfg.Pods = nil
				entries, err := os.ReadDir(dir)
				if err != nil {
					return nil, err
				}
				for _, e := range entries {
					cfg.Pods = append(cfg.Pods, types.UID(e.Name()))
				}
				users, err := NewUserNamespaces(cfg)
				if err != nil {
					return nil, err
				}
				return users.Stage(), nil
			},
			Use: func(s stages.Stage, pod *v1.Pod) error { _, err := s.(UserStage).users.Of(pod); return err },
			Holds: func(uid types.UID) bool {
				_, err := os.Lstat(file(uid))
				return err == nil
			},
		}
	})
}

// A file that makes no sense is left over, too: its pod may have had any users.
func TestUserStageNamesWhatItCannotRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "1"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "1", "userns"), []byte("nonsense"), 0o600))
	users, err := NewUserNamespaces(UserNamespacesConfig{
		PodDir: func(uid types.UID) string { return filepath.Join(dir, string(uid)) }, Pods: []types.UID{"1"},
	})
	require.NoError(t, err)
	left, err := users.Stage().Leftovers(t.Context())
	require.NoError(t, err)
	require.Equal(t, []types.UID{"1"}, left)
	require.NoError(t, users.Stage().Release(t.Context(), "1"))
	left, err = users.Stage().Leftovers(t.Context())
	require.NoError(t, err)
	require.Empty(t, left)
}
