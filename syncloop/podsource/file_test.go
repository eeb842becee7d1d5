package podsource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/syncloop"
)

// sourceRig runs a FileSource on a real folder and records its changes. It handles each set at once:
// a deleted file is ignored until then, but for a bounded time.
type sourceRig struct {
	t        *testing.T
	dir      string
	merger   *follower
	source   *FileSource
	changes  chan []string
	problems chan Problem
	events   []string // events of the merger; read in bubbles only
}

func newSourceRig(t *testing.T, edit func(*FileConfig)) *sourceRig {
	t.Helper()
	r := &sourceRig{t: t, dir: t.TempDir(), changes: make(chan []string, 1000), problems: make(chan Problem, 1000)}
	r.merger = newMerger(t, MergerConfig{Event: func(ref v1.ObjectReference, eventtype, reason, message string) {
		r.events = append(r.events, strings.Join([]string{eventtype, reason, ref.Name, message}, " "))
	}})
	cfg := FileConfig{Path: r.dir, Merger: r.merger.Merger, Decoder: testDecoder(), Logger: slog.New(problemLog{r})}
	if edit != nil {
		edit(&cfg)
	}
	source, err := NewFileSource(cfg)
	require.NoError(t, err)
	r.source, source.history.settle = source, 30*time.Millisecond
	return r
}

type problemLog struct{ rig *sourceRig }

func (l problemLog) Enabled(context.Context, slog.Level) bool { return true }
func (l problemLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l problemLog) WithGroup(string) slog.Handler            { return l }

func (l problemLog) Handle(_ context.Context, record slog.Record) error {
	record.Attrs(func(a slog.Attr) bool {
		for _, p := range l.rig.source.Problems() {
			if record.Level == slog.LevelWarn && a.Key == "path" && a.Value.String() == p.Path {
				l.rig.problems <- p
			}
		}
		return true
	})
	return nil
}

func (r *sourceRig) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- r.source.Run(ctx, func(syncloop.Event) { r.handle() })
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(r.t, <-done)
	})
	r.t.Cleanup(stop)
	return stop
}

// handle handles the newest set. The source calls it.
func (r *sourceRig) handle() {
	changes := r.merger.Changes("file")
	r.merger.Handled("file")
	if len(changes) == 0 {
		return
	}
	var lines []string
	for _, line := range trace(changes) {
		words := strings.Fields(line)
		for i, word := range words {
			words[i], _, _ = strings.Cut(word, "-node-1/")
		}
		lines = append(lines, strings.Join(words, " "))
	}
	r.changes <- lines
}

func (r *sourceRig) next() []string {
	r.t.Helper()
	select {
	case lines := <-r.changes:
		return lines
	case <-time.After(time.Minute):
		r.t.Fatal("no change")
		return nil
	}
}

func (r *sourceRig) problem() Problem {
	r.t.Helper()
	select {
	case p := <-r.problems:
		return p
	case <-time.After(time.Minute):
		r.t.Fatal("no problem")
		return Problem{}
	}
}

func (r *sourceRig) path(name string) string { return filepath.Join(r.dir, name) }

func (r *sourceRig) write(name, content string) {
	r.t.Helper()
	put(r.t, r.path(name), content)
}

// rename writes a file aside and renames it, as careful programs do.
func (r *sourceRig) rename(name, content string) {
	r.t.Helper()
	temporary := filepath.Join(r.t.TempDir(), name)
	put(r.t, temporary, content)
	require.NoError(r.t, os.Rename(temporary, r.path(name)))
}

func manifestOf(name, image string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %q\nspec:\n  containers:\n  - name: c\n    image: %q\n", name, image)
}

func fixedUID(manifest, uid string) string {
	return strings.Replace(manifest, "metadata:\n", "metadata:\n  uid: "+uid+"\n", 1)
}

// Changes of a folder through the real watch. S5: an edited manifest is another pod; with a fixed
// UID it is an update.
func TestFileSourceFollowsChanges(t *testing.T) {
	r := newSourceRig(t, func(cfg *FileConfig) { cfg.Period = time.Hour })
	r.write("a.yaml", manifestOf("a", "x"))
	r.write(".hidden", "not a manifest")
	r.write("#a.yaml#", manifestOf("a", "y"))
	require.False(t, r.merger.Ready())
	r.start()
	require.Equal(t, []string{"ADD a"}, r.next())
	require.True(t, r.merger.Ready())

	r.rename("b.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"},"spec":{"containers":[{"name":"c","image":"x"}]}}`)
	require.Equal(t, []string{"ADD b"}, r.next())
	r.write("a.yaml", manifestOf("a", "z"))
	require.Equal(t, []string{"REMOVE a", "ADD a"}, r.next(), "an edited manifest without UID is another pod")
	r.rename("f", fixedUID(manifestOf("f", "x"), "u-1"))
	require.Equal(t, []string{"ADD f"}, r.next())
	r.rename("f", fixedUID(manifestOf("f", "y"), "u-1"))
	require.Equal(t, []string{"UPDATE f"}, r.next())
	require.Equal(t, r.path("f"), r.source.Origin("u-1"))
	require.Empty(t, r.source.Origin("u-2"))
	for _, name := range []string{"a.yaml", "b.json", "f"} {
		require.NoError(t, os.Remove(r.path(name)))
	}
	removed := 0
	for removed < 3 {
		for _, line := range r.next() {
			require.Contains(t, line, "REMOVE")
			removed += len(strings.Fields(line)) - 1
		}
	}
	r.write("d", manifestOf("d", "x"))
	require.Equal(t, []string{"ADD d"}, r.next())
	require.Empty(t, r.source.Problems())
	require.Empty(t, r.source.Origin("u-1"), "the file was removed")
}

// Each kind of bad file is one problem that names file and reason, and does not affect other files
// (more kinds in internal/fs and the decoder's tests). A good version before it keeps running (S7,
// S10).
func TestFileSourceProblems(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, path string)
		want  string
	}{
		"not YAML": {func(t *testing.T, p string) { put(t, p, "a: [") }, "yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testProblem(t, c.spoil, c.want) })
		})
	}
}

// testProblem spoils a new manifest, and one that was good.
func testProblem(t *testing.T, damage func(t *testing.T, path string), want string) {
	r := newSourceRig(t, func(cfg *FileConfig) {
		cfg.Period, cfg.NoWatch = 100*time.Millisecond, true
	})
	r.write("other", manifestOf("other", "x"))
	r.start()
	require.Equal(t, []string{"ADD other"}, r.next())

	damage(t, r.path("m"))
	p := r.problem()
	require.Equal(t, r.path("m"), p.Path)
	require.Contains(t, p.Message, want)
	require.False(t, p.KeptLastGood)
	require.NoError(t, os.RemoveAll(r.path("m")))

	// Good, then bad, then good again: the only change is the first ADD.
	r.rename("m", manifestOf("m", "x"))
	require.Equal(t, []string{"ADD m"}, r.next())
	require.NoError(t, os.Remove(r.path("m")))
	damage(t, r.path("m"))
	p = r.problem()
	require.Contains(t, p.Message, want)
	require.True(t, p.KeptLastGood)
	require.Equal(t, []Problem{p}, r.source.Problems())
	require.NoError(t, os.RemoveAll(r.path("m")))
	r.rename("m", manifestOf("m", "x"))
	r.rename("n", manifestOf("n", "x"))
	require.Equal(t, []string{"ADD n"}, r.next())
	require.Empty(t, r.source.Problems())
	require.Empty(t, r.problems, "each problem is logged once")
}

// The pod of a link to a deleted file ends like the pod of a deleted file. It does not return with
// the next agent, not even if the link then leads to a broken file.
func TestFileSourceDanglingLink(t *testing.T) {
	dir, state, target := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "target")
	put(t, target, manifestOf("m", "x"))
	require.NoError(t, os.Symlink(target, filepath.Join(dir, "m")))
	synctest.Test(t, func(t *testing.T) {
		configured := func(cfg *FileConfig) { cfg.Path, cfg.StateDir, cfg.NoWatch = dir, state, true }
		r := newSourceRig(t, configured)
		stop := r.start()
		require.Equal(t, []string{"ADD m"}, r.next())
		require.NoError(t, os.Remove(target))
		p := r.problem()
		require.Contains(t, p.Message, "symbolic link to a missing file")
		require.False(t, p.KeptLastGood)
		require.Equal(t, []string{"REMOVE m"}, r.next())
		stop()
		put(t, target, "broken: [")
		r = newSourceRig(t, configured)
		r.start()
		require.Equal(t, []string{"ADD"}, r.next())
	})
}

func put(t testing.TB, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

// S7: a file that is written slowly is read after it is closed, even if its beginning is a valid
// pod.
func TestFileSourceSlowWriter(t *testing.T) {
	writing := make(chan struct{})
	r := newSourceRig(t, nil)
	watch := r.source.watch
	r.source.watch = func(ctx context.Context, changed func(fs.Hint)) error {
		var once sync.Once
		return watch(ctx, func(h fs.Hint) {
			changed(h)
			if h.State == fs.Writing && filepath.Base(h.Path) == "slow" {
				once.Do(func() { close(writing) })
			}
		})
	}
	r.start()
	require.Equal(t, []string{"ADD"}, r.next())
	// After this change only the following ones trigger scans.
	r.rename("o0", manifestOf("o0", "x"))
	require.Equal(t, []string{"ADD o0"}, r.next())
	f, err := os.Create(r.path("slow"))
	require.NoError(t, err)
	_, err = f.WriteString(manifestOf("slow", "x"))
	require.NoError(t, err)
	<-writing
	for _, other := range []string{"o1", "o2", "o3"} {
		r.rename(other, manifestOf(other, "x"))
		require.Equal(t, []string{"ADD " + other}, r.next())
	}
	_, err = f.WriteString("  - name: second\n    image: z\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, []string{"ADD slow"}, r.next())
	require.Empty(t, r.problems)
}

// A path that is created later, vanishes and returns is followed.
func TestFileSourcePathAppears(t *testing.T) {
	for _, single := range []bool{false, true} {
		t.Run(fmt.Sprint("single file ", single), func(t *testing.T) {
			base := t.TempDir()
			path := filepath.Join(base, "manifests")
			r := newSourceRig(t, func(cfg *FileConfig) { cfg.Path = path; cfg.Period = time.Hour })
			r.dir = path
			r.start()
			require.Equal(t, []string{"ADD"}, r.next(), "a missing path yields an empty set")
			require.Equal(t, "does not exist", r.problem().Message)
			for range 2 {
				if single {
					put(t, path, manifestOf("a", "x"))
				} else {
					require.NoError(t, os.Mkdir(path, 0o755))
					r.rename("a", manifestOf("a", "x"))
				}
				require.Equal(t, []string{"ADD a"}, r.next())
				if !single {
					r.rename("b", manifestOf("b", "x"))
					require.Equal(t, []string{"ADD b"}, r.next())
				}
				require.NoError(t, os.RemoveAll(path))
				for remaining := map[bool]int{false: 2, true: 1}[single]; remaining > 0; {
					for _, line := range r.next() {
						require.Contains(t, line, "REMOVE")
						remaining -= len(strings.Fields(line)) - 1
					}
				}
			}
		})
	}
}

// A file that is deleted and written again at once ends its pod, which then starts again.
func TestFileSourceDeletedAndWritten(t *testing.T) {
	r := newSourceRig(t, func(cfg *FileConfig) { cfg.Period = time.Hour })
	r.write("a", manifestOf("a", "x"))
	r.start()
	require.Equal(t, []string{"ADD a"}, r.next())
	for range 3 {
		require.NoError(t, os.Remove(r.path("a")))
		r.write("a", manifestOf("a", "x"))
		require.Equal(t, []string{"REMOVE a"}, r.next())
		require.Equal(t, []string{"ADD a"}, r.next())
	}
}

// A file that was deleted and written again starts its pod once, even if a scan finds the file before
// the watch reports it.
func TestFileSourceReturnIsReportedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSourceRig(t, func(cfg *FileConfig) { cfg.NoWatch = true })
		r.write("a", manifestOf("a", "x"))
		r.start()
		require.Equal(t, []string{"ADD a"}, r.next())
		require.NoError(t, os.Remove(r.path("a")))
		r.source.hints.Add(fs.Hint{Path: r.path("a"), State: fs.Deleted})
		require.Equal(t, []string{"REMOVE a"}, r.next())
		r.write("a", manifestOf("a", "x"))
		r.source.hints.Add(fs.Hint{})
		require.Equal(t, []string{"ADD a"}, r.next())
		r.source.hints.Add(fs.Hint{Path: r.path("a"), State: fs.Written})
		r.write("b", manifestOf("b", "x"))
		r.source.hints.Add(fs.Hint{Path: r.path("b"), State: fs.Written})
		require.Equal(t, []string{"ADD b"}, r.next())
	})
}

// A list that began before a deletion, and a read that blocks, show no return of the file.
func TestFileSourceBlockedReadIsNoReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSourceRig(t, func(cfg *FileConfig) { cfg.NoWatch = true })
		r.write("a", manifestOf("a", "x"))
		var late atomic.Bool
		reader, listed, blocked := r.source.reader, list(r.dir), make(chan struct{})
		unblock := sync.OnceFunc(func() { late.Store(false); close(blocked) })
		defer unblock()
		reader.list = func(path string) listing {
			if late.Load() {
				return listed
			}
			return list(path)
		}
		read := reader.read
		reader.read = func(path string, known stamp) fs.Reading {
			if late.Load() {
				<-blocked
			}
			return read(path, known)
		}
		r.start()
		require.Equal(t, []string{"ADD a"}, r.next())
		synctest.Wait()
		late.Store(true)
		require.NoError(t, os.Remove(r.path("a")))
		r.source.hints.Add(fs.Hint{Path: r.path("a"), State: fs.Deleted})
		time.Sleep(fs.AnswerTime + time.Second)
		synctest.Wait()
		require.Empty(t, r.changes)
		unblock()
		require.Equal(t, []string{"REMOVE a"}, r.next())
	})
}

// Each Run announces the set of an earlier Run, also while the folder is away.
func TestFileSourceRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSourceRig(t, func(cfg *FileConfig) { cfg.NoWatch = true })
		r.write("a", manifestOf("a", "x"))
		stop := r.start()
		require.Equal(t, []string{"ADD a"}, r.next())
		stop()
		synctest.Wait()
		require.NoError(t, os.Rename(r.dir, r.dir+".away"))
		r.merger.read = map[string]map[types.UID]*v1.Pod{} // another Loop
		r.start()
		require.Equal(t, []string{"ADD a"}, r.next())
	})
}

// A folder that is moved away keeps its pods, although inotify reports changes of its files
// elsewhere.
func TestFileSourceFolderMovedAway(t *testing.T) {
	base := t.TempDir()
	r := newSourceRig(t, func(cfg *FileConfig) { cfg.Path, cfg.Period = mkdir(t, filepath.Join(base, "m")), time.Hour })
	r.dir = filepath.Join(base, "m")
	r.write("a", manifestOf("a", "x"))
	r.start()
	require.Equal(t, []string{"ADD a"}, r.next())
	away := filepath.Join(base, "away")
	require.NoError(t, os.Rename(r.dir, away))
	require.NoError(t, os.Remove(filepath.Join(away, "a")))
	p := r.problem()
	require.Contains(t, p.Message, "is missing")
	require.True(t, p.KeptLastGood)

	put(t, filepath.Join(away, "a"), manifestOf("a", "x"))
	put(t, filepath.Join(away, "b"), manifestOf("b", "x"))
	require.NoError(t, os.Rename(away, r.dir))
	require.Equal(t, []string{"ADD b"}, r.next())
}

// After a folder is replaced, the manifests in the new one are used at once. Missing ones continue
// for the period.
func TestFileSourceFolderReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSourceRig(t, func(cfg *FileConfig) { cfg.Path, cfg.NoWatch = mkdir(t, filepath.Join(cfg.Path, "m")), true })
		next := mkdir(t, filepath.Join(r.dir, "next"))
		r.dir = r.source.cfg.Path
		r.write("a", manifestOf("a", "x"))
		r.start()
		require.Equal(t, []string{"ADD a"}, r.next())
		put(t, filepath.Join(next, "b"), manifestOf("b", "x"))
		require.NoError(t, os.Rename(r.dir, r.dir+".old"))
		require.NoError(t, os.Rename(next, r.dir))
		require.Equal(t, []string{"ADD b"}, r.next())
		replaced := time.Now()
		require.Contains(t, r.problem().Message, "was replaced by another folder")
		require.Equal(t, []string{"REMOVE a"}, r.next())
		require.Equal(t, r.source.cfg.Period, time.Since(replaced))
	})
}

// A folder that programs replace by swapping a link, as ConfigMap volumes do.
func TestFileSourceSwappedLink(t *testing.T) {
	r := newSourceRig(t, func(cfg *FileConfig) { cfg.Period = time.Hour })
	put(t, filepath.Join(mkdir(t, r.path("..v1")), "a"), fixedUID(manifestOf("a", "x"), "u"))
	put(t, filepath.Join(mkdir(t, r.path("..v2")), "a"), fixedUID(manifestOf("a", "y"), "u"))
	require.NoError(t, os.Symlink("..v1", r.path("..data")))
	require.NoError(t, os.Symlink("..data/a", r.path("a")))
	r.start()
	require.Equal(t, []string{"ADD a"}, r.next())
	require.NoError(t, os.Symlink("..v2", r.path("..tmp")))
	require.NoError(t, os.Rename(r.path("..tmp"), r.path("..data")))
	require.Equal(t, []string{"UPDATE a"}, r.next())
}

// S8: a folder is emptied, the watch is lost, a new file is created: after a period only the new
// pod exists.
func TestFileSourceLosesWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := make(chan struct{})
		r := newSourceRig(t, func(cfg *FileConfig) { cfg.NoWatch = true })
		r.source.watch = func(context.Context, func(fs.Hint)) error { <-lost; return errors.ErrUnsupported }
		r.write("a", manifestOf("a", "x"))
		r.start()
		require.Equal(t, []string{"ADD a"}, r.next())
		require.NoError(t, os.Remove(r.path("a")))
		r.source.hints.Add(fs.Hint{Path: r.path("a"), State: fs.Deleted})
		require.Equal(t, []string{"REMOVE a"}, r.next())
		close(lost)
		r.write("b", manifestOf("b", "x"))
		began := time.Now()
		require.Equal(t, []string{"ADD b"}, r.next())
		require.Equal(t, r.source.cfg.Period, time.Since(began))
	})
}

// The first set waits for a file that is being written.
func TestFirstSetWaitsForWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSourceRig(t, func(cfg *FileConfig) { cfg.NoWatch = true })
		r.write("a", manifestOf("a", "x"))
		began := time.Now()
		require.NoError(t, os.Chtimes(r.path("a"), began, began))
		r.start()
		require.Equal(t, []string{"ADD a"}, r.next())
		require.Positive(t, time.Since(began))
	})
}

// S6: of two files with one pod the first by name is used, and the other causes an event; deleting
// it changes no pod.
func TestFileSourceWarnsAboutCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSourceRig(t, func(cfg *FileConfig) { cfg.NoWatch = true })
		r.write("a.yaml", manifestOf("a", "x"))
		r.write("a.yaml.bak", manifestOf("a", "old"))
		r.start()
		require.Equal(t, []string{"ADD a"}, r.next())
		why := "metadata.name: pod default/a-node-1 is already defined by " + r.path("a.yaml")
		require.Equal(t, why, r.problem().Message)
		synctest.Wait()
		require.Equal(t, []string{"Warning FailedValidation a-node-1 pod from file ignored: a.yaml.bak: " + why}, r.events)
		require.NoError(t, os.Remove(r.path("a.yaml.bak")))
		r.write("b", manifestOf("b", "x"))
		require.Equal(t, []string{"ADD b"}, r.next())
		require.Empty(t, r.source.Problems())
	})
}

func mkdir(t *testing.T, path string) string {
	t.Helper()
	require.NoError(t, os.Mkdir(path, 0o755))
	return path
}

func TestNewFileSourceRefuses(t *testing.T) {
	good := FileConfig{Path: "x", Merger: newMerger(t, MergerConfig{}).Merger, Decoder: testDecoder()}
	for field, edit := range map[string]func(*FileConfig){
		"Path":     func(c *FileConfig) { c.Path = "" },
		"Merger":   func(c *FileConfig) { c.Merger = nil },
		"NodeName": func(c *FileConfig) { c.Decoder.NodeName = "" },
		"Period":   func(c *FileConfig) { c.Period = -1 },
	} {
		cfg := good
		edit(&cfg)
		_, err := NewFileSource(cfg)
		require.ErrorContains(t, err, field)
	}
	f, err := NewFileSource(good)
	require.NoError(t, err)
	require.True(t, filepath.IsAbs(f.cfg.Path))
	synctest.Test(t, func(t *testing.T) {
		_, err := NewFileSource(good)
		require.ErrorContains(t, err, "FileConfig.NoWatch must be true in a synctest bubble")
		require.ErrorContains(t, f.Run(t.Context(), func(syncloop.Event) {}), "FileConfig.NoWatch must be true in a synctest bubble")
	})
}

// With a StateDir, a manifest that was broken while no agent ran keeps its pod; the pod of a
// deleted manifest does not return.
func TestFileSourceRemembersGoodVersions(t *testing.T) {
	dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	run := func() []string {
		r := newSourceRig(t, func(cfg *FileConfig) { cfg.Path, cfg.StateDir = dir, state })
		defer r.start()()
		return r.next()
	}
	put(t, filepath.Join(dir, "a"), manifestOf("a", "x"))
	put(t, filepath.Join(dir, "b"), manifestOf("b", "x"))
	require.Equal(t, []string{"ADD a b"}, run())
	put(t, filepath.Join(dir, "a"), "broken: [")
	require.NoError(t, os.Remove(filepath.Join(dir, "b")))
	require.Equal(t, []string{"ADD a"}, run())
	entries, err := os.ReadDir(state)
	require.NoError(t, err)
	require.Len(t, entries, 1, "the stored version of b was removed")
	put(t, filepath.Join(state, entries[0].Name()), "half")
	require.Equal(t, []string{"ADD"}, run(), "a damaged stored version is ignored")
}
