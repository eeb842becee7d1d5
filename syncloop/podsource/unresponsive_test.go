package podsource

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/internal/fs"
)

// unresponsiveRig returns a source with files that do not respond until they are released.
func unresponsiveRig(t *testing.T, silent ...string) (r *sourceRig, release func()) {
	r = newSourceRig(t, func(cfg *FileConfig) { cfg.NoWatch = true })
	blocked := make(chan struct{})
	read := r.source.reader.read
	r.source.reader.read = func(path string, known stamp) fs.Reading {
		for _, name := range silent {
			if path == r.path(name) {
				<-blocked
			}
		}
		return read(path, known)
	}
	return r, func() { close(blocked) }
}

// A file that does not respond is named and does not affect other files. It is used as soon as it
// responds.
func TestUnresponsiveFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, release := unresponsiveRig(t, "b")
		for _, name := range []string{"a", "b", "c"} {
			r.write(name, manifestOf(name, "x"))
		}
		started := time.Now()
		r.start()
		require.Equal(t, []string{"ADD a c"}, r.next())
		require.LessOrEqual(t, time.Since(started), longestStart+fs.AnswerTime)
		p := r.problem()
		require.Equal(t, r.path("b"), p.Path)
		require.Contains(t, p.Message, "the read blocks")
		require.True(t, p.NoAnswer)
		require.ErrorContains(t, r.source.CheckHealth(), r.path("b"))

		r.write("d", manifestOf("d", "x"))
		require.Equal(t, []string{"ADD d"}, r.next())
		require.Empty(t, r.problems, "each problem is logged once")
		release()
		require.Equal(t, []string{"ADD b"}, r.next())
		require.NoError(t, r.source.CheckHealth())
		require.Empty(t, r.source.Problems())
	})
}

// A link with a new target is read while the read of the old target still blocks. Run's error
// names the blocked read.
func TestUnresponsiveLinkIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, release := unresponsiveRig(t, "link")
		target := filepath.Join(t.TempDir(), "good")
		put(t, target, manifestOf("good", "x"))
		require.NoError(t, os.Symlink("/silent", r.path("link")))
		require.True(t, r.source.read().files[0].unresponsive)
		r.source.reader.read = func(path string, known stamp) fs.Reading { return r.source.reader.reader.Read(path, known) }
		require.True(t, r.source.read().files[0].unresponsive, "no second read of the same link")
		require.NoError(t, os.Remove(r.path("link")))
		require.NoError(t, os.Symlink(target, r.path("link")))
		require.False(t, r.source.read().files[0].unresponsive)
		require.ErrorContains(t, r.source.join(), r.path("link"))
		release()
	})
}

// A folder that does not respond is unknown until it responds.
func TestUnresponsiveFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := unresponsiveRig(t)
		r.write("a", manifestOf("a", "x"))
		blocked := make(chan struct{})
		list := r.source.reader.list
		r.source.reader.list = func(path string) listing {
			<-blocked
			return list(path)
		}
		r.start()
		p := r.problem()
		require.Equal(t, r.dir, p.Path)
		require.True(t, p.NoAnswer)
		require.ErrorContains(t, r.source.CheckHealth(), r.dir)
		require.False(t, r.merger.Ready())
		close(blocked)
		require.Equal(t, []string{"ADD a"}, r.next())
		require.NoError(t, r.source.CheckHealth())
	})
}
