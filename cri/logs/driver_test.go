package logs

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const one, two = stamp + "stdout F one\n", stamp + "stdout F two\n"

type page struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *page) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// states implements States with a set of stopped containers and an error.
type states struct {
	mu      sync.Mutex
	stopped map[string]bool
	err     error
	asked   atomic.Int64
}

func (s *states) Running(_ context.Context, ids []string) ([]bool, error) {
	s.asked.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	var out []bool
	for _, id := range ids {
		out = append(out, !s.stopped[id])
	}
	return out, nil
}

func (s *states) set(err error, stopped ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.stopped = err, map[string]bool{}
	for _, id := range stopped {
		s.stopped[id] = true
	}
}

type scripted struct {
	changes chan change
	fail    chan struct{}

	mu     sync.Mutex
	dirs   map[string]int
	added  int
	addErr error
}

func newScripted() *scripted {
	return &scripted{changes: make(chan change), fail: make(chan struct{}), dirs: map[string]int{}}
}

func (s *scripted) notify(ctx context.Context, begin func(folders), changed func([]change)) error {
	begin(s)
	for {
		select {
		case c := <-s.changes:
			changed([]change{c})
		case <-s.fail:
			return errors.New("failed")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *scripted) Add(dir string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.addErr != nil {
		return 0, s.addErr
	}
	s.added++
	s.dirs[dir] = s.added
	return s.added, nil
}

func (s *scripted) Remove(watch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.dirs, func(_ string, w int) bool { return w == watch })
}

func (s *scripted) watched() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.dirs))
}

// send sends a change in the folder of a follower and waits for its effect.
func (s *scripted) send(f *running, c change) {
	s.mu.Lock()
	c.watch = s.dirs[filepath.Dir(f.path)]
	s.mu.Unlock()
	s.changes <- c
	synctest.Wait()
}

func noNotifier(context.Context, func(folders), func([]change)) error {
	return errors.New("too many instances")
}

func notified(t *testing.T, cfg ReaderConfig, notify notifyFunc) *Reader {
	r := newReader(t, cfg)
	r.notify = notify
	return r
}

// running is a Read with Follow in a bubble.
type running struct {
	*testing.T
	path   string
	out    *page
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

func startFollow(t *testing.T, r *Reader, path string, o Options) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &running{T: t, path: path, out: &page{}, cancel: cancel, ended: make(chan struct{})}
	o.Follow = true
	go func() {
		defer close(f.ended)
		f.err = r.Read(ctx, Log{Path: path, ContainerID: "c"}, o, f.out, f.out)
	}()
	synctest.Wait()
	t.Cleanup(func() { cancel(); <-f.ended })
	return f
}

// followed runs a script in a bubble while a log with this text is followed without a notifier.
func followed(t *testing.T, cfg ReaderConfig, text string, script func(f *running)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		script(startFollow(t, notified(t, cfg, noNotifier), write(t, text), Options{}))
	})
}

func (f *running) append(text string) {
	f.Helper()
	file := f.open(os.O_CREATE)
	_, err := file.WriteString(text)
	require.NoError(f, err)
	require.NoError(f, file.Close())
}

// open opens the log for appending, as a runtime does.
func (f *running) open(flags int) *os.File {
	f.Helper()
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|flags, 0o600)
	require.NoError(f, err)
	return file
}

// rotate renames the log and returns its new name.
func (f *running) rotate(stamp string) string {
	f.Helper()
	require.NoError(f, os.Rename(f.path, f.path+"."+stamp))
	return f.path + "." + stamp
}

// is waits and then checks the output.
func (f *running) is(after time.Duration, want string) {
	f.Helper()
	time.Sleep(after)
	synctest.Wait()
	require.Equal(f, want, f.out.String())
}

func (f *running) endsWithin(d time.Duration) error {
	f.Helper()
	began := time.Now()
	<-f.ended
	require.LessOrEqual(f, time.Since(began), d)
	return f.err
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
