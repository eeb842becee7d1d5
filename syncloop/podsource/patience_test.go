package podsource

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/syncloop"
)

// silentRig has a source of which some files do not answer until they are released.
func silentRig(t *testing.T, silent ...string) (r *rig, release func()) {
	r = newRig(t, func(cfg *FileConfig) {
		cfg.Watch = NoWatch
	})
	blocked := make(chan struct{})
	read := r.source.reader.read
	r.source.reader.read = func(q request) reading {
		for _, name := range silent {
			if q.path == r.path(name) {
				<-blocked
			}
		}
		return read(q)
	}
	return r, func() { close(blocked) }
}

// A file that does not answer is named, and stops nobody else; it counts as soon as
// it answers.
func TestSilentFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, release := silentRig(t, "b")
		for _, name := range []string{"a", "b", "c"} {
			r.write(name, manifestOf(name, "x"))
		}
		started := time.Now()
		r.start()
		require.Equal(t, []string{"ADD a c"}, r.next())
		require.LessOrEqual(t, time.Since(started), longestStart+answerTime)
		p := r.problem()
		require.Equal(t, r.path("b"), p.Path)
		require.Contains(t, p.Message, "does not answer")
		require.True(t, p.NoAnswer)
		require.ErrorContains(t, r.source.CheckHealth(), r.path("b"))

		r.write("d", manifestOf("d", "x"))
		require.Equal(t, []string{"ADD d"}, r.next())
		require.Empty(t, r.problems, "told once")
		release()
		require.Equal(t, []string{"ADD b"}, r.next())
		require.NoError(t, r.source.CheckHealth())
		require.Empty(t, r.source.Problems())
	})
}

// Many silent files cost no more time than two.
func TestManySilentFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for i := range 50 {
			names = append(names, fmt.Sprint("m", i))
		}
		r, release := silentRig(t, names...)
		for _, name := range append(names, "z") {
			r.write(name, manifestOf(name, "x"))
		}
		started := time.Now()
		_, err := r.source.look(time.Time{})
		require.NoError(t, err)
		require.Equal(t, 2*answerTime, time.Since(started))
		pods, _ := r.merger.Pods("file")
		require.Len(t, pods, 1)
		release()
		require.NoError(t, r.source.join())
		started = time.Now()
		_, err = r.source.look(time.Time{})
		require.NoError(t, err)
		require.Zero(t, time.Since(started))
	})
}

// A link that leads elsewhere now is read, whatever became of the read before; so is
// a file of which the watch says something. Run's end names what still blocks.
func TestSilentLinkIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, release := silentRig(t, "link", "file")
		target := filepath.Join(t.TempDir(), "good")
		put(t, target, manifestOf("good", "x"))
		put(t, r.path("file"), manifestOf("file", "x"))
		require.NoError(t, os.Symlink("/silent", r.path("link")))
		look := func() (files map[string]bool) {
			files = map[string]bool{}
			for _, f := range r.source.read().files {
				files[filepath.Base(f.path)] = f.silent
			}
			return files
		}
		both := map[string]bool{"file": true, "link": true}
		require.Equal(t, both, look())
		r.source.reader.read = r.source.reader.one
		require.Equal(t, both, look(), "nothing more is asked of them")
		require.NoError(t, os.Remove(r.path("link")))
		require.NoError(t, os.Symlink(target, r.path("link")))
		r.source.hints.Add(Hint{Path: r.path("file")})
		require.Equal(t, map[string]bool{"file": false, "link": false}, look())
		err := r.source.join()
		require.ErrorContains(t, err, r.path("link"))
		require.ErrorContains(t, err, r.path("file"))
		release()
	})
}

// A folder that does not answer is unknown, and known again once it does.
func TestSilentFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := silentRig(t)
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

// Whatever a link leads to, the source goes on. /proc/kmsg says that it is a plain
// file, and blocks who reads it; it is not read, which would take the messages away.
func TestLinkToBlockingFile(t *testing.T) {
	for _, target := range []string{"/proc/kmsg", "/dev/tty", "/dev/zero", "/proc/self/mem"} {
		r := newRig(t, nil)
		require.NoError(t, os.Symlink(target, r.path("a")))
		r.write("b", manifestOf("b", "x"))
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
		done := make(chan error, 1)
		go func() { done <- r.source.Run(ctx, func(syncloop.Event) {}) }()
		p := r.problem()
		require.Equal(t, r.path("a"), p.Path, target)
		require.Eventually(t, func() bool { pods, _ := r.merger.Pods("file"); return len(pods) == 1 }, time.Minute, time.Millisecond, target)
		stop()
		require.NoError(t, <-done)
	}
}
