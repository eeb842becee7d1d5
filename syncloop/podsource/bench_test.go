package podsource

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/internal/fs"
)

// BenchmarkFileSourceFindsChange measures the cost of one changed manifest among 1,000: scan,
// decode the new version, merge, and derive the change.
func BenchmarkFileSourceFindsChange(b *testing.B) {
	const n = 1000
	dir, old := b.TempDir(), time.Now().Add(-time.Hour) // old files, as on a node
	for i := range n {
		path := filepath.Join(dir, fmt.Sprintf("m%04d.yaml", i))
		put(b, path, manifestOf(fmt.Sprint("pod", i), "x"))
		require.NoError(b, os.Chtimes(path, old, old))
	}
	m := newMerger(b, MergerConfig{})
	f, err := NewFileSource(FileConfig{Path: dir, Merger: m.Merger, Decoder: testDecoder(), NoWatch: true})
	require.NoError(b, err)
	f.reader.reader.Youngest = 0 // no file is written during the benchmark
	f.scan(time.Now(), ignoreEvent)
	require.Len(b, m.Changes("file")[0].Pods, n)
	m.Handled("file")
	path, aside := filepath.Join(dir, "m0002.yaml"), filepath.Join(dir, ".new")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		put(b, aside, manifestOf("pod2", fmt.Sprint("x:", i)))
		require.NoError(b, os.Rename(aside, path))
		f.hints.Add(fs.Hint{Path: path, State: fs.Written})
		f.scan(time.Time{}, ignoreEvent)
		require.Len(b, m.Changes("file"), 2)
		m.Handled("file")
	}
}
