package logs

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// page is a writer that can be read while it is written.
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

// states are the containers that do not run, and what goes wrong.
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

// scripted is a Notifier in memory.
type scripted struct {
	changes chan Change
	closed  chan struct{}
	once    sync.Once

	mu     sync.Mutex
	dirs   map[string]bool
	addErr error
}

func newScripted() *scripted {
	return &scripted{changes: make(chan Change), closed: make(chan struct{}), dirs: map[string]bool{}}
}

func (s *scripted) Add(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.addErr == nil {
		s.dirs[dir] = true
	}
	return s.addErr
}

func (s *scripted) Remove(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.dirs, dir)
}

func (s *scripted) Next(buf []Change) ([]Change, error) {
	select {
	case c := <-s.changes:
		return append(buf, c), nil
	case <-s.closed:
		return buf, errors.New("closed")
	}
}

func (s *scripted) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func noNotifier() (Notifier, error) { return nil, errors.New("too many instances") }

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

func (f *running) append(text string) {
	f.Helper()
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	require.NoError(f, err)
	_, err = file.WriteString(text)
	require.NoError(f, err)
	require.NoError(f, file.Close())
}

func (f *running) is(want string) {
	f.Helper()
	require.Equal(f, want, f.out.String())
}

func (f *running) endsWithin(d time.Duration) error {
	f.Helper()
	began := time.Now()
	<-f.ended
	require.LessOrEqual(f, time.Since(began), d)
	return f.err
}

const one, two = stamp + "stdout F one\n", stamp + "stdout F two\n"

// Without a notifier everything is found once a period.
func TestFollowByLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &states{}
		r := newReader(t, ReaderConfig{States: s, Notify: noNotifier})
		f := startFollow(t, r, write(t, one), Options{})
		f.is("one\n")
		f.append(two)
		synctest.Wait()
		f.is("one\n")
		time.Sleep(time.Second)
		synctest.Wait()
		f.is("one\ntwo\n")
		f.append(stamp + "stdout F half a li")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		f.is("one\ntwo\n")
		f.append("ne\n")
		time.Sleep(time.Second)
		synctest.Wait()
		f.is("one\ntwo\nhalf a line\n")
		f.append(one)
		s.set(nil, "c")
		require.NoError(t, f.endsWithin(time.Second))
		f.is("one\ntwo\nhalf a line\none\n")
	})
}

func TestFollowWhatIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newScripted()
		s := &states{}
		r := newReader(t, ReaderConfig{States: s, Notify: func() (Notifier, error) { return n, nil }})
		f := startFollow(t, r, write(t, ""), Options{})
		dir := filepath.Dir(f.path)
		began := time.Now()
		f.append(one)
		n.changes <- Change{Dir: dir, Name: "0.log"}
		synctest.Wait()
		f.is("one\n")
		f.append(two)
		n.changes <- Change{Dir: dir, Name: "10.log"}
		n.changes <- Change{Dir: dir, Name: "0.logs"}
		n.changes <- Change{Dir: "elsewhere", Name: "0.log"}
		synctest.Wait()
		f.is("one\n")
		n.changes <- Change{} // some were lost
		synctest.Wait()
		f.is("one\ntwo\n")
		// The runtime closes the log a moment before it says that the container
		// has stopped.
		f.append(stamp + "stdout P end")
		n.changes <- Change{Dir: dir, Name: "0.log", Closed: true}
		synctest.Wait()
		s.set(nil, "c")
		require.NoError(t, f.endsWithin(firstRetry))
		f.is("one\ntwo\nend")
		require.LessOrEqual(t, time.Since(began), firstRetry, "nothing waited for the period")
	})
}

func TestFollowEnds(t *testing.T) {
	for _, tc := range []struct {
		name, file, want string
		stopped          []string
		o                Options
	}{
		{"a container that has stopped", one + stamp + "stdout F ha", "one\nha", []string{"c"}, Options{}},
		{"a limit", one + two, "one\nt", nil, Options{LimitBytes: 5}},
		{"lines before the end", one + two, "two\n", []string{"c"}, Options{TailLines: lines(1)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &states{}
				s.set(nil, tc.stopped...)
				f := startFollow(t, newReader(t, ReaderConfig{States: s, Notify: noNotifier}), write(t, tc.file), tc.o)
				require.NoError(t, f.endsWithin(0))
				f.is(tc.want)
			})
		})
	}
	t.Run("context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := startFollow(t, newReader(t, ReaderConfig{Notify: noNotifier}), write(t, one), Options{})
			time.Sleep(time.Hour)
			f.cancel()
			require.ErrorIs(t, f.endsWithin(0), context.Canceled)
			f.is("one\n")
		})
	})
}

// A runtime that cannot be asked says nothing about the container.
func TestFollowCountsUnknownAsRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &states{}
		s.set(errors.New("unavailable"), "c")
		f := startFollow(t, newReader(t, ReaderConfig{States: s, Notify: noNotifier}), write(t, one), Options{})
		time.Sleep(time.Minute)
		f.append(two)
		time.Sleep(time.Second)
		synctest.Wait()
		f.is("one\ntwo\n")
		s.set(nil, "c")
		require.NoError(t, f.endsWithin(time.Second))
	})
}

// #115701, #126564: the log is removed and made anew, or cut.
func TestFollowRecreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &states{}
		f := startFollow(t, newReader(t, ReaderConfig{States: s, Notify: noNotifier}), write(t, one), Options{})
		require.NoError(t, os.Remove(f.path))
		time.Sleep(5 * time.Second)
		f.append(two)
		time.Sleep(time.Second)
		synctest.Wait()
		f.is("one\ntwo\n")
		require.NoError(t, os.Truncate(f.path, 0))
		time.Sleep(2 * time.Second)
		f.append(one)
		time.Sleep(time.Second)
		synctest.Wait()
		f.is("one\ntwo\none\n")
		require.NoError(t, os.Remove(f.path))
		s.set(nil, "c")
		require.NoError(t, f.endsWithin(time.Second))
	})
}
