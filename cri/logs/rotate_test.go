package logs

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/run"
)

// oneContainer is a runtime with one container. It writes to the open log file, even after a
// rename, as runtimes do.
type oneContainer struct {
	t    testing.TB
	path string

	mu      sync.Mutex
	state   runtimeapi.ContainerState
	file    *os.File
	reopens int
	// before is called at the beginning of a reopen, after at its end; an error fails the call.
	before, after func() error
}

func newContainer(t testing.TB) *oneContainer {
	t.Helper()
	c := &oneContainer{t: t, path: filepath.Join(t.TempDir(), "0.log"), state: runtimeapi.ContainerState_CONTAINER_RUNNING}
	c.file = c.open()
	t.Cleanup(func() { _ = c.file.Close() })
	return c
}

func (c *oneContainer) open() *os.File {
	file, err := os.OpenFile(c.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	require.NoError(c.t, err)
	return file
}

func (c *oneContainer) write(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.file.WriteString(text)
	require.NoError(c.t, err)
}

// numbers writes lines that contain their numbers.
func (c *oneContainer) numbers(from, to int) {
	for i := from; i < to; i++ {
		c.write(fmt.Sprintf("%sstdout F %d\n", stamp, i))
	}
}

func (c *oneContainer) exit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = runtimeapi.ContainerState_CONTAINER_EXITED
	require.NoError(c.t, c.file.Close())
}

func (c *oneContainer) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return []*runtimeapi.Container{{Id: "c", State: c.state}}, nil
}

func (c *oneContainer) ContainerStatus(_ context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{Id: id, State: c.state, LogPath: c.path}}, nil
}

func (c *oneContainer) ReopenContainerLog(context.Context, string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == runtimeapi.ContainerState_CONTAINER_EXITED {
		return errors.New("the container does not run")
	}
	c.reopens++
	if c.before != nil {
		if err := c.before(); err != nil {
			return err
		}
	}
	old := c.file
	c.file = c.open()
	require.NoError(c.t, old.Close())
	if c.after != nil {
		return c.after()
	}
	return nil
}

func newRotator(t testing.TB, cfg RotatorConfig) *Rotator {
	t.Helper()
	cfg.Owner.Unlabelled = true
	r, err := NewRotator(cfg)
	require.NoError(t, err)
	return r
}

// content returns the text of all files of a log, oldest first.
func content(t testing.TB, path string) string {
	t.Helper()
	list, err := listRotated(path)
	require.NoError(t, err)
	var all bytes.Buffer
	for _, r := range list {
		text, err := os.ReadFile(r.path(path))
		require.NoError(t, err)
		if r.gz {
			text = gunzip(t, text)
		}
		all.Write(text)
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return all.String() + string(text)
}

func gunzip(t testing.TB, data []byte) []byte {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	data, err = io.ReadAll(zip)
	require.NoError(t, err)
	return data
}

// numbered checks that a log contains the numbers of [from, to) in order, each once.
func numbered(t testing.TB, text string, from, to int) {
	t.Helper()
	want := from
	for line := range bytes.Lines([]byte(text)) {
		l, err := ParseLine(line)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(want), string(l.Content))
		want++
	}
	require.Equal(t, to, want)
}

func filesOf(t testing.TB, path string) []string {
	t.Helper()
	names, err := namesIn(filepath.Dir(path))
	require.NoError(t, err)
	slices.Sort(names)
	return names
}

// Section 9: at most five files remain, and the newest rotated one is uncompressed.
func TestRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 5, 6, 7, 8, 9, 0, time.Local)))
		c := newContainer(t)
		var rotations []Rotation
		r := newRotator(t, RotatorConfig{Runtime: c, MaxSize: 1000, OnRotate: func(r Rotation) { rotations = append(rotations, r) }})
		require.NoError(t, c.file.Chmod(0o604))
		c.numbers(0, 10)
		r.round(t.Context())
		require.Equal(t, []string{"0.log"}, filesOf(t, c.path), "too small")
		for i := range 6 {
			c.numbers(10+100*i, 110+100*i)
			r.round(t.Context())
			time.Sleep(10 * time.Second)
		}
		require.Equal(t, []string{
			"0.log", "0.log.20260506-070829.gz", "0.log.20260506-070839.gz", "0.log.20260506-070849.gz", "0.log.20260506-070859",
		}, filesOf(t, c.path))
		numbered(t, content(t, c.path), 210, 610)
		require.Equal(t, 6, c.reopens)
		require.Len(t, rotations, 6)
		require.Equal(t, c.path+".20260506-070859", rotations[5].Rotated)
		require.NoError(t, rotations[5].Err)
		r.round(t.Context())
		require.Equal(t, 6, c.reopens, "empty now")
		info, err := os.Stat(c.path + ".20260506-070829.gz")
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o640), info.Mode().Perm())
	})
}

func TestRotateOnlyRunning(t *testing.T) {
	for _, state := range []runtimeapi.ContainerState{
		runtimeapi.ContainerState_CONTAINER_EXITED, runtimeapi.ContainerState_CONTAINER_CREATED, runtimeapi.ContainerState_CONTAINER_UNKNOWN,
	} {
		c := newContainer(t)
		c.numbers(0, 100)
		c.state = state
		newRotator(t, RotatorConfig{Runtime: c, MaxSize: 1}).round(t.Context())
		require.Equal(t, []string{"0.log"}, filesOf(t, c.path), state)
	}
}

func TestPlanCleanup(t *testing.T) {
	const a, b, c, d = "0.log.20260101-000000", "0.log.20260101-000001", "0.log.20260101-000002", "0.log.20260101-000003"
	for _, tc := range []struct {
		name  string
		names []string
		keep  int
		want  cleanup
	}{
		{"nothing", []string{"0.log"}, 3, cleanup{}},
		{"compress", []string{b, "0.log", a}, 3, cleanup{compress: []string{a, b}}},
		{"oldest go", []string{d, b, "0.log", a + ".gz", c}, 2, cleanup{remove: []string{a + ".gz", b}, compress: []string{c, d}}},
		{"none stay", []string{a, "0.log"}, 0, cleanup{remove: []string{a}}},
		{"a crash while compressing", []string{a + ".tmp", a}, 3, cleanup{remove: []string{a + ".tmp"}, compress: []string{a}}},
		{"a crash after compressing", []string{a, a + ".gz", b}, 3, cleanup{remove: []string{a}, compress: []string{b}}},
		{"files of others", []string{"0.log.keep", "0.log.keep.gz", "10" + a[1:], "1" + a[1:], "0.log.20261301-000000", "0.log.x.tmp", a + ".bak"}, 0, cleanup{}},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, planCleanup("0.log", tc.names, tc.keep)) })
	}
}

func TestNextStamp(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	require.Equal(t, "20260102-030405", nextStamp(nil, now))
	require.Equal(t, "20260102-030405", nextStamp([]rotated{{stamp: "20260102-030404"}}, now))
	require.Equal(t, "20260102-030406", nextStamp([]rotated{{stamp: "20260102-030405"}}, now), "twice in a second")
	require.Equal(t, "20270101-000000", nextStamp([]rotated{{stamp: "20261231-235959"}}, now), "the clock went back")
}

// After a failure of runtime or agent between rename and reopen, no line is lost, and the next
// round repairs the state.
func TestRotateReopenFails(t *testing.T) {
	for _, tc := range []struct {
		name string
		// round is the round that fails. After a crash a new rotator follows.
		round   func(c *oneContainer, r *Rotator)
		crash   bool
		files   int // after round
		reopens int // after the next round
	}{
		{"C41: not at all, so the log keeps its name", func(c *oneContainer, r *Rotator) {
			c.before = func() error { return status.Error(codes.Unavailable, "down") }
			r.round(c.t.Context())
		}, false, 1, 2},
		// The next round has nothing to do: the runtime writes to the new file.
		{"after the new file was begun, or too late", func(c *oneContainer, r *Rotator) {
			c.after = func() error { return context.DeadlineExceeded }
			r.round(c.t.Context())
		}, false, 2, 1},
		{"after the new file was made, with writes to the old one", makeOnly, false, 2, 2},
		{"the same, and a crash", makeOnly, true, 2, 2},
		{"C42: kill -9 before it", func(c *oneContainer, _ *Rotator) {
			require.NoError(c.t, os.Rename(c.path, c.path+".20260102-030405"))
		}, true, 1, 1},
		{"the rotator is told to end", func(c *oneContainer, r *Rotator) {
			ctx, cancel := context.WithCancel(c.t.Context())
			c.before = func() error { cancel(); return ctx.Err() }
			require.NoError(c.t, r.Run(ctx))
		}, true, 1, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newContainer(t)
			r := newRotator(t, RotatorConfig{Runtime: c, MaxSize: 1000})
			c.numbers(0, 100)
			tc.round(c, r)
			require.Len(t, filesOf(t, c.path), tc.files)
			c.numbers(100, 110)
			c.before, c.after = nil, nil
			if tc.crash {
				r = newRotator(t, RotatorConfig{Runtime: c, MaxSize: 1000})
			}
			r.round(t.Context())
			c.numbers(110, 120)
			require.Equal(t, tc.reopens, c.reopens)
			require.Len(t, filesOf(t, c.path), 2)
			numbered(t, content(t, c.path), 0, 120)
			r.round(t.Context())
			require.Equal(t, tc.reopens, c.reopens)
		})
	}
}

// makeOnly is a round in which the runtime creates the new file and continues to write to the old
// file.
func makeOnly(c *oneContainer, r *Rotator) {
	c.before = func() error {
		require.NoError(c.t, os.WriteFile(c.path, nil, 0o640))
		return errors.New("no memory")
	}
	r.round(c.t.Context())
}

// A file with a writer is not compressed, because later lines would be lost.
func TestRotateDoesNotCompressWhatIsWritten(t *testing.T) {
	c := newContainer(t)
	r := newRotator(t, RotatorConfig{Runtime: c, MaxSize: 1000})
	late, err := os.OpenFile(c.path, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	for i := range 2 {
		c.numbers(100*i, 100*i+100)
		r.round(t.Context())
	}
	require.NotContains(t, strings.Join(filesOf(t, c.path), " "), ".gz")
	require.NoError(t, late.Close())
	c.numbers(200, 300)
	r.round(t.Context())
	require.Equal(t, 2, strings.Count(strings.Join(filesOf(t, c.path), " "), ".gz"))
	numbered(t, content(t, c.path), 0, 300)
}

// A container with access to its log folder can create any file under the names of rotated files.
// The rotator does not block on a pipe, neither reads nor writes through a link, and still rotates
// the log.
func TestRotateTakesPlainFilesOnly(t *testing.T) {
	const a, b = ".20260101-000000", ".20260101-000001"
	for name, plant := range map[string]func(t *testing.T, path, secret string){
		"a pipe": func(t *testing.T, path, _ string) { require.NoError(t, unix.Mkfifo(path+a, 0o600)) },
		"a pipe, the newest": func(t *testing.T, path, _ string) {
			require.NoError(t, unix.Mkfifo(path+".20990101-000000", 0o600))
		},
		"a link":   func(t *testing.T, path, secret string) { require.NoError(t, os.Symlink(secret, path+a)) },
		"a folder": func(t *testing.T, path, _ string) { require.NoError(t, os.Mkdir(path+a, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newContainer(t)
			secret := filepath.Join(t.TempDir(), "secret")
			require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
			require.NoError(t, os.WriteFile(c.path+b, []byte(one), 0o600))
			plant(t, c.path, secret)
			c.numbers(0, 100)
			newRotator(t, RotatorConfig{Runtime: c, MaxSize: 1000}).round(t.Context())
			require.Positive(t, c.reopens)
			require.NoFileExists(t, c.path+a+".gz")
		})
	}
}

func TestRotatorRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContainer(t)
		r := newRotator(t, RotatorConfig{Runtime: c, MaxSize: 1000, Workers: 3})
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		for i := range 3 { // at 0, 10 and 20 s
			synctest.Wait()
			c.numbers(100*i, 100*i+100)
			time.Sleep(10*time.Second - time.Millisecond)
			synctest.Wait()
			c.mu.Lock()
			require.Equal(t, i, c.reopens)
			c.mu.Unlock()
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, <-ended)
		require.ErrorIs(t, r.Run(t.Context()), ErrAlreadyRun)
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRotator(t, RotatorConfig{Runtime: stuck{}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := r.Run(ctx)
		require.ErrorIs(t, err, run.ErrShutdownTimeout)
		require.ErrorContains(t, err, "Runtime or OnRotate")
		time.Sleep(time.Hour)
	})
	synctest.Test(t, func(t *testing.T) {
		c := newContainer(t)
		c.numbers(0, 100)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, newRotator(t, RotatorConfig{Runtime: c, MaxSize: -1}).Run(ctx))
		require.Zero(t, c.reopens)
	})
}

// stuck is a runtime that ignores contexts for half an hour.
type stuck struct{ RotatorRuntime }

func (stuck) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	time.Sleep(30 * time.Minute)
	return nil, nil
}

func TestRotatorConfig(t *testing.T) {
	c := newContainer(t)
	for field, cfg := range map[string]RotatorConfig{
		"MaxFiles": {Runtime: c, MaxFiles: 1},
		"Period":   {Runtime: c, Period: time.Second},
		"Workers":  {Runtime: c, Workers: -1},
	} {
		_, err := NewRotator(cfg)
		require.ErrorContains(t, err, field)
	}
	r := newRotator(t, RotatorConfig{Runtime: c})
	require.Equal(t, []any{int64(10 << 20), 5, 10 * time.Second, 1}, []any{r.cfg.MaxSize, r.cfg.MaxFiles, r.cfg.Period, r.cfg.Workers})
}

func TestRenameNew(t *testing.T) {
	for name, rename := range map[string]func(from, to string) error{"rename": renameNew, "link": linkNew} {
		path := write(t, one)
		require.NoError(t, os.WriteFile(path+"2", []byte(two), 0o600), name)
		require.ErrorIs(t, rename(path, path+"2"), os.ErrExist, name)
		require.NoError(t, rename(path, path+"3"), name)
		require.Equal(t, []string{"0.log2", "0.log3"}, filesOf(t, path))
		require.ErrorIs(t, rename(path, path+"4"), os.ErrNotExist, name)
	}
}

// Compressed files are complete and have the log's mode, independent of the umask.
func TestCompress(t *testing.T) {
	text := strings.Repeat(one+two, 10000)
	path := write(t, text)
	require.NoError(t, os.Chmod(path, 0o646))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, compress(ctx, path), context.Canceled)
	require.Equal(t, []string{"0.log"}, filesOf(t, path))
	require.NoError(t, compress(t.Context(), path))
	require.Equal(t, []string{"0.log.gz"}, filesOf(t, path))
	info, err := os.Stat(path + ".gz")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o646), info.Mode().Perm())
	got, err := os.ReadFile(path + ".gz")
	require.NoError(t, err)
	require.Equal(t, text, string(gunzip(t, got)))
}

// compress does not follow a link at the name of its temporary file.
func TestCompressFollowsNoLink(t *testing.T) {
	path := write(t, one)
	other := filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(other, []byte("other"), 0o600))
	require.NoError(t, os.Symlink(other, path+tempSuffix))
	require.Error(t, compress(t.Context(), path))
	text, err := os.ReadFile(other)
	require.NoError(t, err)
	require.Equal(t, "other", string(text))
	require.FileExists(t, path)
}
