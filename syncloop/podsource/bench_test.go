package podsource

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/internal/fs"
)

// bigFolder is a folder with many manifests, and a source that has read them.
// Files are as old as they are on a node.
func bigFolder(tb testing.TB, n int) (*FileSource, *follower, string) {
	dir := tb.TempDir()
	old := time.Now().Add(-time.Hour)
	for i := range n {
		path := filepath.Join(dir, fmt.Sprintf("m%04d.yaml", i))
		require.NoError(tb, os.WriteFile(path, []byte(manifestOf(fmt.Sprint("pod", i), "x")), 0o644))
		require.NoError(tb, os.Chtimes(path, old, old))
	}
	m := newMerger(tb, MergerConfig{})
	f, err := NewFileSource(FileConfig{Path: dir, Merger: m.Merger, Decoder: testDecoder(), NoWatch: true})
	require.NoError(tb, err)
	f.reader.reader.Youngest = 0 // nobody writes them while they are read
	f.look(time.Now(), unheard)
	require.Len(tb, m.Changes("file")[0].Pods, n)
	m.Handled("file")
	return f, m, dir
}

// edit changes one manifest as a careful program does.
func edit(tb testing.TB, f *FileSource, dir string, i int) {
	path := filepath.Join(dir, "m0002.yaml")
	aside := filepath.Join(dir, ".new")
	require.NoError(tb, os.WriteFile(aside, []byte(manifestOf("pod2", fmt.Sprint("x:", i))), 0o644))
	require.NoError(tb, os.Rename(aside, path))
	f.hints.Add(fs.Hint{Path: path, State: fs.Written})
}

// BenchmarkFileSourceFindsChange measures the cost of finding the one of 1,000 manifests
// that has changed: look at the files, decode the new version, merge and derive the change.
func BenchmarkFileSourceFindsChange(b *testing.B) {
	f, m, dir := bigFolder(b, 1000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		editAndLook(b, f, m, dir, i)
	}
}

// Memory stays flat however often manifests are edited, and by whatever temporary
// files.
func TestFileSourceMemoryFlat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		warm, edits := 300, 10_000
		if testing.Short() {
			warm, edits = 100, 300
		}
		f, m, dir := bigFolder(t, 5)
		play := func(from, n int) {
			for i := range n {
				f.hints.Add(fs.Hint{Path: filepath.Join(dir, fmt.Sprint("temporary-", from+i)), State: fs.Written})
				editAndLook(t, f, m, dir, from+i)
				time.Sleep(100 * time.Millisecond)
			}
		}
		play(0, warm)
		before := heap()
		play(warm, edits)
		grown := int64(heap()) - int64(before)
		require.Less(t, grown, int64(256<<10), "bytes in use after %d edits, compared to before", edits)
		require.Len(t, f.history.files, 5)
		runtime.KeepAlive(f)
	})
}

func editAndLook(tb testing.TB, f *FileSource, m *follower, dir string, i int) {
	edit(tb, f, dir, i)
	f.look(time.Time{}, unheard)
	require.Len(tb, m.Changes("file"), 2)
	m.Handled("file")
}

// heap is how much memory is in use after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
