package checkpoint

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/probe"
)

const uid types.UID = "6d1c1e0e-0c4a-4b6e-8a59-1c8f5a2f5d10"

func aRecord(restarts int32) Record {
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	return Record{
		Status: v1.PodStatus{
			Phase:      v1.PodRunning,
			StartTime:  &at,
			PodIP:      "10.1.2.3",
			Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: at}},
			ContainerStatuses: []v1.ContainerStatus{{
				Name: "app", ContainerID: "containerd://2", RestartCount: restarts, Ready: true, Started: new(true),
				State:                v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at}},
				LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 7, Message: "gone <&> \x00é", ContainerID: "containerd://1"}},
			}},
		},
		Probes: []probe.Stored{
			{Container: "app", ContainerID: "containerd://2", Type: probe.Readiness, Result: probe.Success},
			{Container: "app", ContainerID: "containerd://2", Type: probe.Startup, Result: probe.Success},
		},
	}
}

// newStore returns a Store and the file of the pod, whose folder exists.
func newStore(t testing.TB, change func(*Config)) (*Store, string) {
	t.Helper()
	root := t.TempDir()
	cfg := Config{File: func(uid types.UID) string { return filepath.Join(root, string(uid), "status.json") }}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	require.NoError(t, err)
	path := cfg.File(uid)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
	return s, path
}

func again(t testing.TB, s *Store) *Store {
	t.Helper()
	next, err := New(s.cfg)
	require.NoError(t, err)
	return next
}

func TestNewNamesTheField(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "Config.File")
}

func TestTheNextAgentHasTheRecord(t *testing.T) {
	for _, sync := range []bool{false, true} {
		s, path := newStore(t, func(c *Config) { c.Sync = sync })
		require.NoError(t, s.Save(uid, aRecord(1)))
		require.NoError(t, s.Save(uid, aRecord(2)))
		requireSaved(t, s, 2)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(private), info.Mode().Perm(), "only the owner can read messages of containers")
		requireOnly(t, path, "status.json")
	}
}

// normal makes times comparable: JSON keeps the moment, not the zone.
func normal(r Record) string {
	_, record, err := encode(uid, r)
	if err != nil {
		return err.Error()
	}
	return string(record)
}

func requireSaved(t *testing.T, s *Store, restarts int32) {
	t.Helper()
	got, err := again(t, s).Load(uid)
	require.NoError(t, err)
	require.Equal(t, normal(aRecord(restarts)), normal(got))
}

func requireOnly(t *testing.T, path string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	require.ElementsMatch(t, names, got)
}

func TestWithoutAFileOrAFolder(t *testing.T) {
	s, path := newStore(t, nil)
	_, err := s.Load(uid)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NotErrorIs(t, err, ErrCorrupt)
	require.NoError(t, s.Remove(uid))

	require.NoError(t, os.RemoveAll(filepath.Dir(path)))
	require.ErrorIs(t, s.Save(uid, aRecord(1)), fs.ErrNotExist)
	require.NoDirExists(t, filepath.Dir(path), "Save creates no folder")
	require.NoError(t, s.Remove(uid))
	require.Empty(t, s.pods, "pods without a record use no memory")
}

// An unusable file loses the memory of one pod, is named in the error, and is set aside.
func TestUnusableFile(t *testing.T) {
	good, _, err := encode(uid, aRecord(1))
	require.NoError(t, err)
	write := func(data []byte) func(t *testing.T, path string) {
		return func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, data, 0o600)) }
	}
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		want string
	}{
		"empty":               {write(nil), "unexpected end"},
		"truncated":           {write(good[:len(good)/2]), "unexpected end"},
		"zeroes":              {write(make([]byte, len(good))), "invalid character"},
		"no JSON":             {write([]byte("hello")), "invalid character"},
		"more than one":       {write(append(bytes.Clone(good), good...)), "after top-level value"},
		"another exit code":   {write(bytes.Replace(good, []byte(`"exitCode":7`), []byte(`"exitCode":0`), 1)), "checksum"},
		"of another pod":      {write(bytes.Replace(good, []byte(uid), []byte("7"+uid[1:]), 1)), "belongs to pod"},
		"of a later version":  {write(bytes.Replace(good, []byte(`"version":1`), []byte(`"version":2`), 1)), "version is 2"},
		"another JSON object": {write([]byte(`{"kind":"Pod"}`)), "version is 0"},
		"too large":           {write(bytes.Repeat([]byte(" "), maxSize+1)), "larger than"},
		"a folder":            {func(t *testing.T, path string) { require.NoError(t, os.MkdirAll(path+"/x", 0o750)) }, "not a regular file"},
		"a pipe":              {makePipe, "not a regular file"},
		"a link":              {func(t *testing.T, path string) { require.NoError(t, os.Symlink("/etc/passwd", path)) }, "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			s, path := newStore(t, nil)
			const other types.UID = "other"
			require.NoError(t, os.MkdirAll(filepath.Dir(s.cfg.File(other)), 0o750))
			require.NoError(t, s.Save(other, aRecord(3)))
			for range 2 { // the second time a file is already aside
				c.make(t, path)
				_, err := s.Load(uid)
				require.ErrorIs(t, err, ErrCorrupt)
				require.ErrorContains(t, err, path)
				require.ErrorContains(t, err, c.want)
				requireOnly(t, path, "status.json.corrupt")
			}
			_, err := s.Load(uid)
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.NoError(t, s.Save(uid, aRecord(1)))
			_, err = again(t, s).Load(uid)
			require.NoError(t, err)
			_, err = s.Load(other)
			require.NoError(t, err, "other pods are unaffected")
			require.NoError(t, s.Remove(uid))
			requireOnly(t, path)
		})
	}
}

// If any part of a file was lost or flipped, Load never returns a record that was not saved.
func TestEachDamagedByteIsFound(t *testing.T) {
	good, _, err := encode(uid, aRecord(1))
	require.NoError(t, err)
	want := normal(aRecord(1))
	for i := range good {
		_, _, err := decode(good[:i], uid)
		require.ErrorIs(t, err, ErrCorrupt, "first %d bytes", i)
		for _, bit := range []byte{1, 32, 128} {
			damaged := bytes.Clone(good)
			damaged[i] ^= bit
			if r, _, err := decode(damaged, uid); err == nil { // the names of fields may be in capitals
				require.Equal(t, want, normal(r), "byte %d", i)
			}
		}
	}
}

func TestNothingIsWrittenWithoutAChange(t *testing.T) {
	s, path := newStore(t, nil)
	require.NoError(t, s.Save(uid, aRecord(1)))
	written := func(r Record) bool {
		require.NoError(t, os.Remove(path))
		require.NoError(t, s.Save(uid, r))
		_, err := os.Stat(path)
		require.NoError(t, s.Remove(uid))
		require.NoError(t, s.Save(uid, aRecord(1)))
		return err == nil
	}
	require.False(t, written(aRecord(1)))
	later := aRecord(1)
	later.Status.Conditions[0].LastProbeTime = metav1.Now()
	require.False(t, written(later), "an equal record is not written")
	require.False(t, later.Status.Conditions[0].LastProbeTime.IsZero(), "Save does not change its argument")
	turned := aRecord(1)
	turned.Probes[0], turned.Probes[1] = turned.Probes[1], turned.Probes[0]
	require.False(t, written(turned))
	require.True(t, written(aRecord(2)))

	failed := aRecord(1)
	failed.Probes[0].Result = probe.Failure
	require.True(t, written(failed))

	next := again(t, s)
	_, err := next.Load(uid)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	require.NoError(t, next.Save(uid, aRecord(1)))
	require.NoFileExists(t, path, "a loaded record is not written again")
}

// The remains of an interrupted Save do not affect later calls.
func TestLeftoversOfAKilledAgent(t *testing.T) {
	s, path := newStore(t, nil)
	require.NoError(t, s.Save(uid, aRecord(1)))
	require.NoError(t, os.WriteFile(path+tmpSuffix, bytes.Repeat([]byte("x"), 1<<16), 0o600))
	requireSaved(t, s, 1)
	require.NoError(t, again(t, s).Save(uid, aRecord(2)))
	requireOnly(t, path, "status.json")
	requireSaved(t, s, 2)
}

// A failed Save keeps the previous record.
func TestAFailedSaveLeavesTheFile(t *testing.T) {
	s, path := newStore(t, nil)
	require.NoError(t, s.Save(uid, aRecord(1)))
	require.NoError(t, os.MkdirAll(path+tmpSuffix+"/x", 0o750))
	require.ErrorContains(t, s.Save(uid, aRecord(2)), path)
	requireSaved(t, s, 1)
	require.NoError(t, os.RemoveAll(path+tmpSuffix))
	require.NoError(t, s.Save(uid, aRecord(2)), "the next record is written")
	requireSaved(t, s, 2)
}

// Conditions of other components may have any size. They must not prevent a Save.
func TestLargeConditionsAreShortened(t *testing.T) {
	s, path := newStore(t, nil)
	r := aRecord(4)
	r.Status.Conditions = append(r.Status.Conditions, v1.PodCondition{Type: "example.com/large", Message: strings.Repeat("é", 5<<20)})
	require.NoError(t, s.Save(uid, r))
	require.Len(t, r.Status.Conditions[1].Message, 10<<20, "Save does not change its argument")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(4<<10))
	got, err := s.Load(uid)
	require.NoError(t, err)
	require.EqualValues(t, 4, got.Status.ContainerStatuses[0].RestartCount)
	require.Len(t, got.Status.Conditions[1].Message, shortMessage)

	r.Status.Message = strings.Repeat("x", maxSize)
	err = s.Save(uid, r)
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, path)
	got, err = again(t, s).Load(uid)
	require.NoError(t, err, "the last record within the limit stays")
	require.EqualValues(t, 4, got.Status.ContainerStatuses[0].RestartCount)
}

// Concurrent calls of Save, Load and Remove leave the newest record.
func TestConcurrentUse(t *testing.T) {
	s, _ := newStore(t, nil)
	var mu sync.Mutex
	newest := int32(0)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				mu.Lock()
				newest++
				mu.Unlock()
				err := s.saveNewest(uid, func() (Record, bool) {
					mu.Lock()
					defer mu.Unlock()
					return aRecord(newest), true
				})
				other := types.UID(fmt.Sprint("none-", i))
				_, otherErr := s.Load(other)
				if err != nil || otherErr == nil || s.Remove(other) != nil {
					t.Error(err, otherErr)
				}
			}
		})
	}
	wg.Wait()
	got, err := again(t, s).Load(uid)
	require.NoError(t, err)
	require.Equal(t, newest, got.Status.ContainerStatuses[0].RestartCount)
	require.Len(t, s.pods, 1)
	require.NoError(t, s.saveNewest(uid, func() (Record, bool) { return Record{}, false }))
	got, err = s.Load(uid)
	require.NoError(t, err)
	require.Equal(t, newest, got.Status.ContainerStatuses[0].RestartCount)
}

func BenchmarkSave(b *testing.B) {
	for _, sync := range []bool{false, true} {
		b.Run(fmt.Sprintf("sync=%t", sync), func(b *testing.B) {
			s, _ := newStore(b, func(c *Config) { c.Sync = sync })
			for i := range b.N {
				require.NoError(b, s.Save(uid, aRecord(int32(i))))
			}
		})
	}
	b.Run("unchanged", func(b *testing.B) {
		s, _ := newStore(b, nil)
		for b.Loop() {
			require.NoError(b, s.Save(uid, aRecord(1)))
		}
	})
}
