package logs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// There is exactly one notifier while there are followers, else none.
func TestFollowersShareANotifier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n *scripted
		running := 0
		r := notified(t, ReaderConfig{}, func(ctx context.Context, begin func(folders), changed func([]change)) error {
			running++
			defer func() { running-- }()
			n = newScripted()
			return n.notify(ctx, begin, changed)
		})
		for range 2 {
			a := startFollow(t, r, write(t, one), Options{})
			b := startFollow(t, r, write(t, one), Options{})
			c := startFollow(t, r, b.path, Options{})
			require.Equal(t, 1, running)
			require.Len(t, n.watched(), 2)
			a.cancel()
			<-a.ended
			require.Len(t, n.watched(), 1)
			b.append(two)
			n.send(b, change{name: "0.log"})
			b.is(0, "one\ntwo\n")
			c.is(0, "one\ntwo\n")
			b.cancel()
			<-b.ended
			c.cancel()
			<-c.ended
			require.Zero(t, running)
		}
	})
}

// A failed notifier is replaced, unless notifiers are unsupported. Changes in between are found.
func TestFollowReplacesANotifier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*scripted
		r := notified(t, ReaderConfig{}, func(ctx context.Context, begin func(folders), changed func([]change)) error {
			all = append(all, newScripted())
			if len(all) == 3 {
				return errors.ErrUnsupported
			}
			return all[len(all)-1].notify(ctx, begin, changed)
		})
		r.period = time.Minute
		f := startFollow(t, r, write(t, one), Options{})
		close(all[0].fail)
		synctest.Wait()
		f.append(two)
		f.is(time.Minute, "one\ntwo\n")
		require.Len(t, all, 2)
		f.append(one)
		all[1].send(f, change{name: "0.log"})
		f.is(0, "one\ntwo\none\n")
		close(all[1].fail)
		f.append(two)
		f.is(time.Hour, "one\ntwo\none\ntwo\n")
		require.Len(t, all, 3)
	})
}

// The poller checks a folder that cannot be watched (ENOSPC) or was removed, and watches it as
// soon as possible.
func TestFollowAFolderThatCannotBeWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newScripted()
		n.addErr = errors.New("no space left on device")
		f := startFollow(t, notified(t, ReaderConfig{}, n.notify), write(t, one), Options{})
		f.append(two)
		f.is(time.Second, "one\ntwo\n")
		require.Empty(t, n.watched())
		n.mu.Lock()
		n.addErr = nil
		n.mu.Unlock()
		f.is(time.Second, "one\ntwo\n")
		require.Len(t, n.watched(), 1)
		n.send(f, change{ended: true})
		f.is(time.Second, "one\ntwo\n")
		require.Equal(t, 2, n.added)
	})
}

// While logs are idle, one call per period requests the states of all containers.
func TestFollowersAskTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &states{}
		r := notified(t, ReaderConfig{States: s}, noNotifier)
		for range 20 {
			startFollow(t, r, write(t, one), Options{})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		before := s.asked.Load()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, int64(10), s.asked.Load()-before)
	})
}

// Logs in watched folders are checked every watchedPeriods periods.
func TestFollowWhatTheNotifierMisses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollow(t, notified(t, ReaderConfig{}, newScripted().notify), write(t, one), Options{})
		f.append(two)
		f.is(0, "one\n")
		f.is(watchedPeriods*time.Second, "one\ntwo\n")
	})
}

// followMany follows n idle logs with a real notifier, until stop is called.
func followMany(t testing.TB, n int) (stop func()) {
	t.Helper()
	r := newReader(t, ReaderConfig{States: &states{}})
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	var followers sync.WaitGroup
	started := make(chan struct{})
	for i := range n {
		path := filepath.Join(dir, strconv.Itoa(i), "0.log")
		require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(one), 0o600))
		followers.Go(func() {
			_ = r.Read(ctx, Log{Path: path, ContainerID: strconv.Itoa(i)}, Options{Follow: true}, tells{started}, nil)
		})
	}
	for range n {
		<-started
	}
	return func() {
		cancel()
		followers.Wait()
	}
}

// tells is a writer that signals each write.
type tells struct{ to chan<- struct{} }

func (w tells) Write(p []byte) (int, error) {
	if len(p) > 0 {
		w.to <- struct{}{}
	}
	return len(p), nil
}

// memory returns the bytes in use. A difference may be negative, because memory of earlier tests
// is freed later.
func memory() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// An idle follower uses at most 16 KiB, and all of them share one inotify instance.
func TestIdleFollowersAreCheap(t *testing.T) {
	const limit = 16 << 10
	n := 500
	if testing.Short() {
		n = 200
	}
	before := memory()
	stop := followMany(t, n)
	each := (memory() - before) / int64(n)
	for end := time.Now().Add(time.Minute); each > limit && time.Now().Before(end); {
		each = (memory() - before) / int64(n) // some were still reading
	}
	instances := 0
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, fd := range fds {
		if link, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name())); err == nil && strings.Contains(link, "inotify") {
			instances++
		}
	}
	stop()
	t.Logf("%d bytes for each", each)
	require.LessOrEqual(t, each, int64(limit))
	require.Equal(t, 1, instances)
}
