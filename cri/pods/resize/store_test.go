package resize

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

	"github.com/podwright/podwright/cri/pods/actions"
)

// What is recorded survives a restart and damage, and nothing else does.
func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "actuated")
	var logged bytes.Buffer
	open := func() Store {
		store, err := NewFolder(FolderConfig{Dir: dir, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		require.NoError(t, err)
		return store
	}
	r := withContainer(actions.Actuated{}, "a", needs(100, 1))
	r.Pod = new(needs(1, 1))
	for _, store := range []Store{NewMemory(), open()} {
		got, err := store.Load("1")
		require.NoError(t, err)
		require.True(t, got.Empty())
		require.NoError(t, store.Save("1", r))
		got, err = store.Load("1")
		require.NoError(t, err)
		require.Equal(t, r, got)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "1.json"): 0o600} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, want, info.Mode().Perm(), "nobody else has any business with %s", path)
	}
	again, err := open().Load("1")
	require.NoError(t, err)
	require.True(t, sameRequirements(r.Containers["a"], again.Containers["a"]))
	require.True(t, samePodRequirements(r.Pod, again.Pod))
	require.Empty(t, logged.String())
	store := open()
	for n := range 2 { // a static pod comes back with its UID
		require.NoError(t, os.WriteFile(filepath.Join(dir, "1.json"), []byte("{"), 0o600))
		for range 2 {
			damaged, err := store.Load("1")
			require.NoError(t, err)
			require.True(t, damaged.Empty())
		}
		require.Equal(t, n+1, strings.Count(logged.String(), "file="+filepath.Join(dir, "1.json")), "said once: %s", &logged)
		require.NoError(t, store.Save("1", actions.Actuated{}))
	}
	require.NoError(t, store.Save("1", actions.Actuated{}), "nothing to drop")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	for _, bad := range []string{"", "../x", "a/b"} {
		require.ErrorContains(t, store.Save(types.UID(bad), r), "is no UID", bad)
		require.ErrorContains(t, store.Save(types.UID(bad), actions.Actuated{}), "is no UID", bad)
		_, err := store.Load(types.UID(bad))
		require.Error(t, err, bad)
	}
	_, err = NewFolder(FolderConfig{})
	require.ErrorContains(t, err, "Dir")
}

// What cannot be read, written or dropped is an error, not nothing.
func TestFolderFails(t *testing.T) {
	dir := t.TempDir()
	store, err := NewFolder(FolderConfig{Dir: dir})
	require.NoError(t, err)
	inTheWay := filepath.Join(dir, "1.json")
	require.NoError(t, os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700))
	r := withContainer(actions.Actuated{}, "a", needs(100, 1))
	require.ErrorContains(t, store.Save("1", r), inTheWay)
	require.ErrorContains(t, store.Save("1", actions.Actuated{}), inTheWay)
	_, err = store.Load("1")
	require.ErrorContains(t, err, inTheWay, "and what was not written is not known")

	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = NewFolder(FolderConfig{Dir: filepath.Join(file, "actuated")})
	require.ErrorContains(t, err, file)
}

// saves counts what is written to a store.
type saves struct {
	Store
	n int
}

func (s *saves) Save(uid types.UID, a actions.Actuated) error {
	s.n++
	return s.Store.Save(uid, a)
}

// What is on record already, or asks for nothing in a pod that does not either, is not
// written.
func TestNoteContainer(t *testing.T) {
	none, five := v1.ResourceRequirements{}, needs(5, 5)
	of := func(r v1.ResourceRequirements) map[string]v1.ResourceRequirements {
		return map[string]v1.ResourceRequirements{"c": r}
	}
	otherRequest := v1.ResourceRequirements{Requests: needs(5, 6).Requests, Limits: five.Limits}
	otherLimit := v1.ResourceRequirements{Requests: five.Requests, Limits: needs(5, 6).Limits}
	for name, c := range map[string]struct {
		recorded  map[string]v1.ResourceRequirements
		resources v1.ResourceRequirements
		pod       *v1.ResourceRequirements
		writes    int
	}{
		"new":                          {nil, five, nil, 1},
		"the same":                     {of(five), needs(5, 5), nil, 0},
		"another request":              {of(five), otherRequest, nil, 1},
		"another limit":                {of(five), otherLimit, nil, 1},
		"asks for nothing more":        {of(five), none, nil, 1},
		"asks for nothing":             {nil, none, nil, 0},
		"asks for nothing, its pod":    {nil, none, &five, 1},
		"the same nothing in that pod": {of(none), none, &five, 0},
	} {
		t.Run(name, func(t *testing.T) {
			store := &saves{Store: NewMemory()}
			r := &Record{store: store, uid: "1", actuated: actions.Actuated{Containers: c.recorded}}
			container := &v1.Container{Name: "c", Resources: c.resources}
			pod := &v1.Pod{Spec: v1.PodSpec{Resources: c.pod}}
			require.NoError(t, r.NoteContainer(pod, container))
			require.Equal(t, c.writes, store.n)
			require.NoError(t, r.NoteContainer(pod, container), "and once is enough")
			require.Equal(t, c.writes, store.n)
		})
	}
}
