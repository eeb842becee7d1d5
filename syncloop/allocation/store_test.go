package allocation

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The file in testdata was written by a kubelet 1.36.
func TestUpstreamFile(t *testing.T) {
	theirs, err := os.ReadFile(filepath.Join("testdata", AllocatedFile))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), AllocatedFile)
	require.NoError(t, os.WriteFile(path, theirs, 0o600))
	s, err := Open(path)
	require.NoError(t, err)
	require.Equal(t, 2, s.Pods())
	one, _ := s.Get("uid-1")
	whole := with("1500m", "1Gi", "limits")
	require.True(t, one.Equal(Resources{
		ContainerResources: map[string]v1.ResourceRequirements{"a": with("1", "64Mi", "limits"), `b"<`: {}}, PodLevelResources: &whole,
	}))
	two, _ := s.Get("uid-2")
	ours, err := encode(map[types.UID]Resources{"uid-1": one, "uid-2": two})
	require.NoError(t, err)
	require.Equal(t, string(theirs), string(ours))
}

// N19
func TestBadFiles(t *testing.T) {
	good, err := encode(map[types.UID]Resources{"1": ResourcesOf(newPod("a", with("1", "1Mi")))})
	require.NoError(t, err)
	withChecksum := func(data string) string {
		return fmt.Sprintf(`{"data":%q,"checksum":%d}`, data, checksum(data))
	}
	for name, c := range map[string]struct {
		file string
		is   error
	}{
		"empty":              {"", ErrCorrupt},
		"half":               {string(good[:len(good)/2]), ErrCorrupt},
		"two":                {string(good) + string(good), ErrCorrupt},
		"changed byte":       {strings.Replace(string(good), "Mi", "Gi", 1), ErrCorrupt},
		"no checksum":        {`{"data":"{}"}`, ErrCorrupt},
		"newer outer object": {`{"version":2,"data":"{}","checksum":1}`, ErrVersion},
		"newer content":      {withChecksum(`{"entries":{"1":{"DeviceResources":{}}}}`), ErrVersion},
		"old version":        {withChecksum(`{"allocationEntries":{}}`), ErrVersion},
		"another type":       {withChecksum(`{"entries":[]}`), ErrCorrupt},
		"negative":           {withChecksum(`{"entries":{"1":{"ContainerResources":{"c":{"requests":{"cpu":"-1"}}}}}}`), ErrCorrupt},
		"overflows":          {withChecksum(`{"entries":{"1":{"PodLevelResources":{"limits":{"memory":"1e99"}}}}}`), ErrCorrupt},
		"no quantity":        {withChecksum(`{"entries":{"1":{"PodLevelResources":{"limits":{"memory":"much"}}}}}`), ErrCorrupt},
		"pod without UID":    {withChecksum(`{"entries":{"":{}}}`), ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), AllocatedFile)
			require.NoError(t, os.WriteFile(path, []byte(c.file), 0o600))
			_, err := Open(path)
			require.ErrorIs(t, err, c.is)
			require.ErrorContains(t, err, path)
			require.ErrorContains(t, err, "delete the file")
			unchanged, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, c.file, string(unchanged), "Open does not change the file")
		})
	}
	_, err = Open(t.TempDir())
	require.ErrorContains(t, err, "is a directory")
}

func TestStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), ActuatedFile)
	s, err := Open(path)
	require.NoError(t, err)
	_, ok := s.Get("a")
	require.False(t, ok)
	require.NoError(t, s.Set("a", ResourcesOf(newPod("a", with("1", "")))))
	require.NoError(t, s.Set("b", ResourcesOf(newPod("b", with("2", "")))))
	require.NoError(t, os.Link(path, path+".before")) // so that the inode is not reused
	before, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), before.Mode().Perm())
	require.NoError(t, s.Set("b", ResourcesOf(newPod("b", with("2000m", "")))))
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after), "equal resources are not written")
	require.ErrorContains(t, s.Set("b", ResourcesOf(newPod("b", with("-2", "")))), "negative")

	s.Retain(func(uid types.UID) bool { return uid == "b" })
	require.NoError(t, s.Set("c", ResourcesOf(newPod("c", with("3", "")))))
	next, err := Open(path)
	require.NoError(t, err)
	require.Equal(t, 2, next.Pods())
	b, _ := next.Get("b")
	require.True(t, b.Equal(ResourcesOf(newPod("b", with("2", "")))))
}

// A failed write is reverted, even with concurrent writes.
func TestStoreFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root")
	s, err := Open(filepath.Join(dir, AllocatedFile))
	require.NoError(t, err)
	require.Error(t, s.Set("a", ResourcesOf(newPod("a", with("1", "")))))
	require.Zero(t, s.Pods())
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, s.Set("a", ResourcesOf(newPod("a", with("1", "")))))
	require.NoError(t, os.Rename(dir, dir+".gone"))
	require.Error(t, s.Set("a", ResourcesOf(newPod("a", with("2", "")))))
	a, _ := s.Get("a")
	require.True(t, a.Equal(ResourcesOf(newPod("a", with("1", "")))))
}

func TestStoreConcurrently(t *testing.T) {
	path := filepath.Join(t.TempDir(), AllocatedFile)
	s, err := Open(path)
	require.NoError(t, err)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for round := range 20 {
				name := fmt.Sprint(i)
				if err := s.Set(types.UID(name), ResourcesOf(newPod(name, with(fmt.Sprint(round+1), "")))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	next, err := Open(path)
	require.NoError(t, err)
	require.Equal(t, 8, next.Pods())
	for i := range 8 {
		r, _ := next.Get(types.UID(fmt.Sprint(i)))
		require.True(t, r.Equal(ResourcesOf(newPod("x", with("20", "")))))
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"data":"{}","checksum":1}`))
	theirs, err := os.ReadFile(filepath.Join("testdata", AllocatedFile))
	require.NoError(f, err)
	f.Add(theirs)
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := decode(data)
		if err != nil {
			return
		}
		again, err := encode(entries)
		require.NoError(t, err)
		_, err = decode(again)
		require.NoError(t, err)
	})
}

// The allocations of many pods are one write, before the first of them starts.
func TestStage(t *testing.T) {
	a := newAgent(t, node(100_000))
	var pods []*v1.Pod
	for i := range 20 {
		pods = append(pods, newPod(fmt.Sprint("p", i), with("1", "")))
		require.NoError(t, a.admitOnly(pods[i]))
	}
	_, err := os.Stat(a.path)
	require.ErrorIs(t, err, os.ErrNotExist, "admission does not write the file")
	stage := a.cfg.Store.Stage()
	require.NoError(t, stage.Prepare(t.Context(), pods[3]))
	require.NoError(t, os.Link(a.path, a.path+".first")) // so that the inode is not reused
	first, err := os.Stat(a.path)
	require.NoError(t, err)
	saved, err := Open(a.path)
	require.NoError(t, err)
	require.Equal(t, 20, saved.Pods())
	for _, pod := range pods {
		require.NoError(t, a.admitOnly(pod))
		require.NoError(t, stage.Prepare(t.Context(), pod))
	}
	again, err := os.Stat(a.path)
	require.NoError(t, err)
	require.True(t, os.SameFile(first, again))

	// After the release of a predecessor with the same UID, Prepare stores the allocation again.
	require.NoError(t, stage.Release(t.Context(), "p3"))
	leftovers, err := stage.Leftovers(t.Context())
	require.NoError(t, err)
	require.Len(t, leftovers, 19)
	require.NotContains(t, leftovers, types.UID("p3"))
	require.NoError(t, stage.Prepare(t.Context(), pods[3]))
	require.True(t, a.Granted("p3"))
	saved, err = Open(a.path)
	require.NoError(t, err)
	require.Equal(t, 20, saved.Pods())
}
