package podsource

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
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

// A file that has not answered yet is not asked a second time.
func TestSilentFileIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, release := silentRig(t, "b")
		var asked atomic.Int32
		read := r.source.reader.read
		r.source.reader.read = func(q request) reading { asked.Add(1); return read(q) }
		r.write("b", manifestOf("b", "x"))
		for range 3 {
			_, err := r.source.look(time.Time{})
			require.NoError(t, err)
		}
		require.EqualValues(t, 1, asked.Load())
		release()
		require.NoError(t, r.source.join())
		_, err := r.source.look(time.Time{})
		require.NoError(t, err)
		require.EqualValues(t, 1, asked.Load(), "what it answered at last counts")
	})
}

// What is known of a file that does not answer any more stays, also when broken
// manifests are dropped: it is not broken.
func TestSilentFileKeepsItsPod(t *testing.T) {
	l := newHistory()
	l.dropBroken = true
	l.see(folder{"a": "a 1"}, 0)
	at := time.Unix(1, 0)
	v := l.apply(snapshot{files: []reading{silent("a")}}, complete, at)
	require.Len(t, v.pods, 1)
	v = l.apply(snapshot{files: []reading{silent("a")}}, complete, at.Add(time.Minute))
	require.Len(t, v.pods, 1)
	require.Equal(t, []Problem{{Path: "a", Message: silence, Since: at, KeptLastGood: true, NoAnswer: true}}, v.problems)
	require.Equal(t, retry, v.recheck)
}

// A file that does not answer is named as such also when another manifest has its pod.
func TestSilentFileWhosePodIsTaken(t *testing.T) {
	l := newHistory()
	l.see(folder{"a": "x 1", "b": "x 2"}, 0)
	_, _, v := l.see(folder{"a": "x 1", "b": "x 2"}, time.Minute)
	require.Len(t, v.problems, 1)
	require.False(t, v.problems[0].NoAnswer)
	v = l.apply(snapshot{files: []reading{{path: "a", data: []byte("x 1")}, silent("b")}}, complete, time.Unix(120, 0))
	require.Equal(t, []Problem{{Path: "b", Message: silence, Since: time.Unix(0, 0), NoAnswer: true}}, v.problems)
}

// Files that are slow, but answer one after the other, are waited for.
func TestSlowFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSurvey(reader{})
		s.read = func(q request) reading { time.Sleep(answerTime * 3 / 4); return reading{path: q.path} }
		require.Equal(t, []reading{{path: "a"}, {path: "b"}, {path: "c"}}, s.ask([]request{{path: "a"}, {path: "b"}, {path: "c"}}))
	})
}

// A worker is left only if it has not come further, and has further to go.
func TestLeave(t *testing.T) {
	for _, c := range []struct {
		files, before, now int
		want               bool
	}{
		{2, 0, 0, true}, {2, 1, 1, true}, {2, 0, 1, false}, {2, 1, 2, false}, {2, 2, 2, false}, {1, 0, 1, false},
	} {
		w := &worker{answers: make([]reading, c.now, c.files)}
		require.Equal(t, c.want, w.leave(c.before), c)
	}
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

// A listing that answers when nobody waits for it any more comes to its end.
func TestLateListingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, blocked := newSurvey(reader{}), make(chan struct{})
		s.list = func(string) listing { <-blocked; return listing{} }
		_, ok := s.listed("/m")
		require.False(t, ok)
		require.Equal(t, []string{"/m"}, s.join("/m", time.Second))
		close(blocked) // the bubble waits for the goroutine
	})
}

// A file that is gone before it is read is not there.
func TestVanishedFile(t *testing.T) {
	s := newSurvey(reader{})
	s.list = func(string) listing {
		return listing{requests: []request{{path: filepath.Join(t.TempDir(), "gone")}}}
	}
	taken := s.all("folder", func(string) stamp { return stamp{} }, func(string) bool { return false })
	require.Empty(t, taken.files)
	require.False(t, taken.unknown)
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

// What is not listed any more is not waited for under its path.
func TestForgetLate(t *testing.T) {
	s := newSurvey(reader{})
	for _, path := range []string{"a", "b"} {
		s.isLate(s.start(nil), request{path: path})
	}
	s.list = func(string) listing { return listing{requests: []request{{path: "b"}, {path: "c"}}} }
	s.read = func(q request) reading { return reading{path: q.path} }
	taken := s.all("folder", func(string) stamp { return stamp{} }, func(string) bool { return false })
	require.Len(t, taken.files, 2)
	require.Len(t, s.late, 1)
	require.Contains(t, s.late, "b")
	require.Equal(t, 1, s.unanswered())
}

// What has answered after all does not count any more, and a file whose reads have not is
// not asked anew for ever.
func TestUnanswered(t *testing.T) {
	answered := make(chan reading, 1)
	answered <- reading{}
	silentOne := lateRead{answers: make(chan reading, 1), asked: request{path: "a"}}
	s := &survey{late: map[string]lateRead{"a": silentOne}, replaced: []lateRead{{answers: answered}, silentOne}}
	require.Equal(t, 1, s.unanswered())
	for range maxReplaced - 1 {
		s.replaced = append(s.replaced, silentOne)
	}
	r, waiting := s.belated(request{path: "a"}, true)
	require.True(t, waiting && r.silent)
	s.replaced = s.replaced[1:]
	_, waiting = s.belated(request{path: "a"}, true)
	require.False(t, waiting)
	require.Len(t, s.replaced, maxReplaced)
}

// A link is the same as long as it is not made anew, or written to.
func TestSameEntry(t *testing.T) {
	dir := t.TempDir()
	entry := func(name string, at time.Time) os.FileInfo {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Chtimes(path, at, at))
		info, err := os.Lstat(path)
		require.NoError(t, err)
		return info
	}
	early, late := time.Unix(1000, 0), time.Unix(2000, 0)
	a := entry("a", early)
	require.True(t, sameEntry(a, entry("a", early)))
	require.False(t, sameEntry(a, entry("a", late)))
	require.False(t, sameEntry(a, entry("b", early)))
	require.True(t, sameEntry(nil, nil))
	require.False(t, sameEntry(a, nil))
	require.False(t, sameEntry(nil, a))
}

// Who stops waits for what is late, for so long and no longer, and names what goes on.
func TestJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := func(path string, after time.Duration) lateRead {
			answers := make(chan reading, 1)
			if after > 0 {
				time.AfterFunc(after, func() { answers <- reading{} })
			}
			return lateRead{answers: answers, asked: request{path: path}}
		}
		begun := time.Now()
		require.Empty(t, newSurvey(reader{}).join("/m", time.Minute))
		require.Zero(t, time.Since(begun), "nobody is late")

		s := newSurvey(reader{})
		s.lateListing = make(chan listing, 1)
		s.late = map[string]lateRead{"c": late("c", 0), "soon": late("soon", 59*time.Second)}
		s.replaced = []lateRead{late("b", 0), late("a", 0), late("at once", 1)}
		require.Equal(t, []string{"/m", "a", "b", "c"}, s.join("/m", time.Minute))
		require.Equal(t, time.Minute, time.Since(begun), "all together, not each")

		s = newSurvey(reader{})
		s.lateListing = make(chan listing, 1)
		time.AfterFunc(time.Second, func() { s.lateListing <- listing{} })
		s.late = map[string]lateRead{"a": late("a", 2*time.Second)}
		require.Empty(t, s.join("/m", time.Minute))
		require.Equal(t, time.Minute+2*time.Second, time.Since(begun))
	})
}
