package pods

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/podworkers/stages/stagestest"
)

// KEP-127: ID ranges survive the agent and belong to one pod each.
func TestUserNamespaces(t *testing.T) {
	dir := t.TempDir()
	cfg := UserNamespacesConfig{
		PodDir: func(uid types.UID) string { return filepath.Join(dir, string(uid)) },
		Range:  request.IDRange{Length: 2 * 65536},
	}
	pod := func(uid string) *v1.Pod { return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}} }
	start := func(pods ...types.UID) *UserNamespaces {
		cfg.Pods = pods
		u, err := NewUserNamespaces(cfg)
		require.NoError(t, err)
		return u
	}
	u := start()
	a, err := u.Of(pod("a"))
	require.NoError(t, err)
	require.Equal(t, request.UserNamespace{HostID: 65536, Length: 65536}, a)
	content, err := os.ReadFile(filepath.Join(dir, "a", "userns"))
	require.NoError(t, err)
	require.Equal(t, string(a.Encode()), string(content))

	// After a restart the pod keeps its range, and the next pod gets another.
	u = start("a", "without")
	require.Equal(t, []types.UID{"a"}, u.Pods())
	b, err := u.Of(pod("b"))
	require.NoError(t, err)
	require.NotEqual(t, a, b)
	again, err := u.Of(pod("a"))
	require.NoError(t, err)
	require.Equal(t, a, again)
	_, err = u.Of(pod("c"))
	require.ErrorContains(t, err, "no free ID range")
	require.NoFileExists(t, filepath.Join(dir, "c", "userns"))

	require.NoError(t, u.Release("a"))
	require.NoError(t, u.Release("a"))
	require.NoFileExists(t, filepath.Join(dir, "a", "userns"))
	c, err := u.Of(pod("c"))
	require.NoError(t, err)
	require.Equal(t, a, c)
}

// An unreadable file fails its pod, which may use any range, and all pods that need a new range,
// because theirs must differ. Pods with a range are unaffected.
func TestUserNamespacesBadFile(t *testing.T) {
	dir := t.TempDir()
	file := func(uid string) string { return filepath.Join(dir, uid, "userns") }
	write := func(uid, content string) {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, uid), 0o755))
		require.NoError(t, os.WriteFile(file(uid), []byte(content), 0o600))
	}
	at := func(first uint32) string { return string(request.UserNamespace{HostID: first, Length: 65536}.Encode()) }
	write("bad", "{")
	write("twin", at(65536))
	write("twin2", at(65536))
	require.NoError(t, os.MkdirAll(file("folder"), 0o755)) // an unreadable file
	var logged bytes.Buffer
	u, err := NewUserNamespaces(UserNamespacesConfig{
		PodDir: func(uid types.UID) string { return filepath.Join(dir, string(uid)) },
		Pods:   []types.UID{"bad", "twin", "twin2", "folder"},
		Logger: slog.New(slog.NewTextHandler(&logged, nil)),
	})
	require.NoError(t, err)
	of := func(uid types.UID) (request.UserNamespace, error) {
		return u.Of(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}})
	}
	for uid, want := range map[string]string{"bad": "invalid user namespace file", "twin2": "belongs to another pod", "folder": "directory"} {
		_, err := of(types.UID(uid))
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, file(uid))
		require.Contains(t, logged.String(), file(uid))
		if uid != "folder" {
			require.FileExists(t, file(uid))
		}
	}
	left, err := u.Stage().Leftovers(t.Context())
	require.NoError(t, err)
	require.Contains(t, left, types.UID("bad"), "its pod may have had any users")
	twin, err := of("twin")
	require.NoError(t, err)
	require.EqualValues(t, 65536, twin.HostID)

	_, err = of("new")
	require.ErrorContains(t, err, "until the file of pod bad is readable")
	require.ErrorContains(t, err, file("bad"))
	require.NoFileExists(t, file("new"))
	write("bad", at(3*65536)) // repaired
	_, err = of("new")
	require.ErrorContains(t, err, "until the file of pod folder is readable")
	require.NoError(t, u.Stage().Release(t.Context(), "folder")) // removed
	left, err = u.Stage().Leftovers(t.Context())
	require.NoError(t, err)
	require.NotContains(t, left, types.UID("folder"))
	for i, first := range []uint32{2 * 65536, 4 * 65536} {
		users, err := of(types.UID(fmt.Sprint("new", i)))
		require.NoError(t, err)
		require.Equal(t, first, users.HostID, "those of the repaired file are taken")
	}
	write("new0", "") // damaged while the agent runs
	_, err = of("new0")
	require.ErrorContains(t, err, file("new0"))
	users, err := of("new2")
	require.NoError(t, err, "it is known what it said")
	require.EqualValues(t, 5*65536, users.HostID)

	// A range is not allocated if its file cannot be written.
	blocked := filepath.Join(dir, "blocked")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	_, err = of("blocked")
	require.Error(t, err)
	require.NotContains(t, u.Pods(), types.UID("blocked"))
	_, err = NewUserNamespaces(UserNamespacesConfig{})
	require.ErrorContains(t, err, "PodDir")
	_, err = NewUserNamespaces(UserNamespacesConfig{PodDir: func(types.UID) string { return "" }, Range: request.IDRange{First: 1}})
	require.ErrorContains(t, err, "Range")
}

func TestUserStage(t *testing.T) {
	stagestest.Run(t, func(t testing.TB) stagestest.Subject {
		dir := t.TempDir()
		cfg := UserNamespacesConfig{PodDir: func(uid types.UID) string { return filepath.Join(dir, string(uid)) }}
		file := func(uid types.UID) string { return filepath.Join(cfg.PodDir(uid), "userns") }
		return stagestest.Subject{
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
