package podsource

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/syncloop"
)

// savedRig is a Saved around a Merger with the source "api".
type savedRig struct {
	*Saved
	merger *Merger
	dir    string
}

func newSavedRig(t *testing.T, dir string) *savedRig {
	t.Helper()
	r := &savedRig{dir: dir}
	var err error
	r.merger, err = NewMerger(MergerConfig{Sources: []string{"api", "other"}})
	require.NoError(t, err)
	r.Saved, err = NewSaved(SavedConfig{Inner: r.merger, Dir: dir, Sources: []string{"api"}})
	require.NoError(t, err)
	return r
}

func savedPods(names ...string) (pods []*v1.Pod) {
	for _, name := range names {
		uid, image, _ := strings.Cut(name, ":")
		pods = append(pods, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: "ns", UID: types.UID(uid), ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: image}}},
		})
	}
	return pods
}

// deliver passes a set through Inner, as the Loop reads it.
func (r *savedRig) deliver(t *testing.T, names ...string) {
	require.NoError(t, r.merger.Set("api", savedPods(names...), func(syncloop.Event) {}))
	_, delivered := r.Pods("api")
	require.True(t, delivered)
	r.Handled("api")
}

func (r *savedRig) shown(t *testing.T) (names []string, delivered bool) {
	pods, delivered := r.Pods("api")
	for _, pod := range pods {
		names = append(names, string(pod.UID)+":"+pod.Spec.Containers[0].Image)
	}
	return names, delivered
}

// A set survives a restart until Inner delivers. Its source is not ready before.
func TestSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := newSavedRig(t, dir)
		_, delivered := r.Pods("api")
		require.False(t, delivered)
		_, inUse := r.Age("api")
		require.False(t, inUse)
		r.deliver(t, "a:1", "b:1")
		r.deliver(t, "a:2", "b:1", "c:1")
		require.NoError(t, r.Err())
		time.Sleep(time.Hour)

		r = newSavedRig(t, dir)
		var emitted []syncloop.Event
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx, func(e syncloop.Event) { emitted = append(emitted, e) }) }()
		synctest.Wait()
		cancel()
		require.NoError(t, <-ended)
		require.Equal(t, []syncloop.Event{changed("api")}, emitted)
		names, delivered := r.shown(t)
		require.True(t, delivered)
		require.Equal(t, []string{"a:2", "b:1", "c:1"}, names)
		age, inUse := r.Age("api")
		require.True(t, inUse)
		require.Equal(t, time.Hour, age)
		r.Handled("api")
		require.False(t, r.SourceReady("api"))

		r.deliver(t, "c:1")
		names, _ = r.shown(t)
		require.Equal(t, []string{"c:1"}, names)
		require.True(t, r.SourceReady("api"))
		require.False(t, r.Ready(), "the other source has not delivered")
		_, inUse = r.Age("api")
		require.False(t, inUse)
		entries, err := os.ReadDir(filepath.Join(dir, "api"))
		require.NoError(t, err)
		require.Len(t, entries, 6, "two sets and the versions of their pods")
		names, _ = newSavedRig(t, dir).shown(t)
		require.Equal(t, []string{"c:1"}, names)

		require.NoError(t, r.merger.Set("other", savedPods("x:1"), func(syncloop.Event) {}))
		others, delivered := r.Pods("other")
		require.True(t, delivered)
		require.Len(t, others, 1)
		require.NoDirExists(t, filepath.Join(dir, "other"))
	})
}

// Damage leads to the previous set or version. Without one, and with a newer format, it is an error.
func TestDamagedSaved(t *testing.T) {
	const pod, set = "a", "set"
	for name, c := range map[string]struct {
		damage func(t *testing.T, file string)
		file   string
		want   string // pods, or the error
	}{
		"torn set":         {truncate, set, "a:1 b:1"},
		"no set":           {remove, set, "a:1 b:1"},
		"empty set":        {replace(""), set, "a:1 b:1"},
		"torn pod":         {truncate, pod, "a:1 b:1"},
		"lost pod":         {remove, pod, "a:1 b:1"},
		"torn constant":    {truncate, "b", "is damaged: its checksum differs"},
		"newer set":        {replace("podwright-saved 2 sha256:0\n{}"), set, "/api/set has a newer format than this program reads: 2"},
		"newer pod":        {replace("podwright-saved 3 sha256:0\n{}"), pod, ".pod has a newer format than this program reads: 3"},
		"a folder as set":  {folderInstead, set, "is a directory"},
		"nothing":          {func(*testing.T, string) {}, set, "a:2 b:1"},
		"left temporaries": {func(t *testing.T, file string) { put(t, file+".tmp", "x") }, set, "a:2 b:1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := newSavedRig(t, dir)
			r.deliver(t, "a:1", "b:1")
			r.deliver(t, "a:2", "b:1")
			file := filepath.Join(dir, "api", c.file)
			if c.file != set {
				pods, _, err := savedFolder{filepath.Join(dir, "api")}.load()
				require.NoError(t, err)
				index, err := savedFolder{filepath.Join(dir, "api")}.index(savedSet)
				require.NoError(t, err)
				for i := range pods {
					if string(pods[i].UID) == c.file {
						file = filepath.Join(dir, "api", index.Pods[i].File)
					}
				}
			}
			c.damage(t, file)
			saved, err := NewSaved(SavedConfig{Inner: r.merger, Dir: dir, Sources: []string{"api"}})
			if err != nil {
				require.ErrorContains(t, err, c.want)
				require.ErrorContains(t, err, "podsource: saved pods of source api: ")
				return
			}
			var got []string
			for _, pod := range saved.sources["api"].stored {
				got = append(got, fmt.Sprintf("%s:%s", pod.UID, pod.Spec.Containers[0].Image))
			}
			require.Equal(t, c.want, strings.Join(got, " "))

			r = newSavedRig(t, dir) // the next set repairs the files
			r.deliver(t, "a:2", "b:1")
			r.deliver(t, "a:2", "b:1", "c:1")
			names, _ := newSavedRig(t, dir).shown(t)
			require.Equal(t, []string{"a:2", "b:1", "c:1"}, names)
		})
	}
}

func truncate(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, data[:len(data)/2], 0o600))
}

func remove(t *testing.T, file string) { require.NoError(t, os.Remove(file)) }

func replace(content string) func(*testing.T, string) {
	return func(t *testing.T, file string) { put(t, file, content) }
}

func folderInstead(t *testing.T, file string) {
	remove(t, file)
	require.NoError(t, os.Mkdir(file, 0o755))
}

// A disk that takes no set is reported, and the set is used.
func TestSavedWithoutDisk(t *testing.T) {
	dir := t.TempDir()
	r := newSavedRig(t, dir)
	put(t, filepath.Join(dir, "api"), "a file instead of a folder")
	r.deliver(t, "a:1")
	names, _ := r.shown(t)
	require.Equal(t, []string{"a:1"}, names)
	require.ErrorContains(t, r.Err(), "saved pods of source api: ")
	remove(t, filepath.Join(dir, "api"))
	_, _ = r.Pods("api")
	require.NoError(t, r.Err(), "the next read repeats it")
}

// hangingDisk is a disk whose writes wait for release.
type hangingDisk struct {
	writes  atomic.Int32
	release chan struct{}
}

func (d *hangingDisk) attach(r *savedRig) {
	write := r.save
	r.save = func(folder savedFolder, pods []*v1.Pod, now time.Time) error {
		d.writes.Add(1)
		<-d.release
		return write(folder, pods, now)
	}
}

// A write that hangs delays one read by 5 s and no other call. The newest set is written last, and
// the sets between are not written. Run reports a write that outlives it.
func TestSavedOnHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := newSavedRig(t, dir)
		disk := &hangingDisk{release: make(chan struct{})}
		disk.attach(r)
		begun := time.Now()
		for _, image := range []string{"a:1", "a:2", "a:3"} {
			r.deliver(t, image)
			names, _ := r.shown(t)
			require.Equal(t, []string{image}, names)
			require.ErrorContains(t, r.Err(), "podsource: saved pods of source api: the disk has not completed a write to "+dir+"/api within 5s")
			require.Equal(t, saveWithin, time.Since(begun))
		}
		_, inUse := r.Age("api")
		require.False(t, inUse)
		require.EqualValues(t, 1, disk.writes.Load())

		stopped, cancel := context.WithCancel(t.Context())
		cancel()
		err := r.Run(stopped, func(syncloop.Event) {})
		require.ErrorIs(t, err, run.ErrShutdownTimeout)
		require.ErrorContains(t, err, "write of the pods of source api")

		close(disk.release)
		synctest.Wait()
		require.NoError(t, r.Err())
		require.EqualValues(t, 2, disk.writes.Load())
		names, _ := newSavedRig(t, dir).shown(t)
		require.Equal(t, []string{"a:3"}, names)

		disk.release = make(chan struct{}) // after a recovery reads wait again
		begun = time.Now()
		r.deliver(t, "a:4")
		require.Equal(t, saveWithin, time.Since(begun))
		close(disk.release)
		synctest.Wait()
	})
}

// innerFunc is a PodSource whose Pods is a function.
type innerFunc struct {
	*Merger
	pods func(source string) ([]*v1.Pod, bool)
}

func (i innerFunc) Pods(source string) ([]*v1.Pod, bool) { return i.pods(source) }

// A set of Inner that arrives after the saved set was read is not handled yet.
func TestSavedHandled(t *testing.T) {
	dir := t.TempDir()
	newSavedRig(t, dir).deliver(t, "a:1")
	r := newSavedRig(t, dir)
	names, _ := r.shown(t)
	require.Equal(t, []string{"a:1"}, names)
	require.NoError(t, r.merger.Set("api", savedPods("a:2"), nil))
	r.Handled("api")
	require.False(t, r.SourceReady("api"))
	_, inUse := r.Age("api")
	require.True(t, inUse)
	r.Pods("api")
	r.Handled("api")
	require.True(t, r.SourceReady("api"))
}

// Concurrent reads save their sets in the order of arrival: the lock covers the read of Inner.
func TestSavedConcurrentReads(t *testing.T) {
	var saved *Saved
	saved, err := NewSaved(SavedConfig{Dir: t.TempDir(), Sources: []string{"api"}, Inner: innerFunc{pods: func(string) ([]*v1.Pod, bool) {
		require.False(t, saved.mu.TryLock())
		return savedPods("a:1"), true
	}}})
	require.NoError(t, err)
	saved.Pods("api")
}

func TestNewSavedRefuses(t *testing.T) {
	inner, err := NewMerger(MergerConfig{})
	require.NoError(t, err)
	for want, cfg := range map[string]SavedConfig{
		"SavedConfig.Inner is required":   {Dir: "/x", Sources: []string{"a"}},
		"SavedConfig.Dir is not absolute": {Inner: inner, Dir: "x", Sources: []string{"a"}},
		"SavedConfig.Sources is required": {Inner: inner, Dir: "/x"},
		`"../a" cannot be the name`:       {Inner: inner, Dir: "/x", Sources: []string{"../a"}},
	} {
		_, err := NewSaved(cfg)
		require.ErrorContains(t, err, want)
	}
}
