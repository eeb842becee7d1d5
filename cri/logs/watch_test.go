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

// There is one notifier while there are followers, and none otherwise.
func TestFollowersShareANotifier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened := 0
		var n *scripted
		r := newReader(t, ReaderConfig{Notify: func() (Notifier, error) {
			opened++
			n = newScripted()
			return n, nil
		}})
		for want := 1; want <= 2; want++ {
			a := startFollow(t, r, write(t, one), Options{})
			b := startFollow(t, r, write(t, one), Options{})
			c := startFollow(t, r, b.path, Options{})
			require.Equal(t, want, opened)
			require.Len(t, n.dirs, 2)
			a.cancel()
			<-a.ended
			require.Len(t, n.dirs, 1)
			b.append(two)
			n.send(Change{Dir: filepath.Dir(b.path), Name: "0.log"})
			b.is(0, "one\ntwo\n")
			c.is(0, "one\ntwo\n")
			b.cancel()
			<-b.ended
			c.cancel()
			<-c.ended
			<-n.closed
		}
	})
}

// A notifier that fails is replaced; what happened in between is found.
func TestFollowReplacesANotifier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*scripted
		r := newReader(t, ReaderConfig{Period: time.Minute, Notify: func() (Notifier, error) {
			all = append(all, newScripted())
			return all[len(all)-1], nil
		}})
		f := startFollow(t, r, write(t, one), Options{})
		all[0].Close()
		synctest.Wait()
		f.append(two)
		f.is(time.Minute, "one\ntwo\n")
		require.Len(t, all, 2)
		f.append(one)
		all[1].send(Change{Dir: filepath.Dir(f.path), Name: "0.log"})
		f.is(0, "one\ntwo\none\n")
		// One that told something is given another five tries.
		for i := range notifierTries {
			all[len(all)-1].Close()
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Len(t, all, 3+i)
		}
		all[len(all)-1].Close()
		f.append(two)
		f.is(time.Hour, "one\ntwo\none\ntwo\n")
		require.Len(t, all, 2+notifierTries, "that was the last try")
	})
}

// A directory that cannot be watched (ENOSPC), or goes away, is looked at, and
// watched as soon as that works.
func TestFollowADirectoryThatCannotBeWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newScripted()
		n.addErr = errors.New("no space left on device")
		f := startFollow(t, newReader(t, ReaderConfig{Notify: n.open}), write(t, one), Options{})
		f.append(two)
		f.is(time.Second, "one\ntwo\n")
		require.Empty(t, n.dirs)
		n.mu.Lock()
		n.addErr = nil
		n.mu.Unlock()
		f.is(time.Second, "one\ntwo\n")
		dir := filepath.Dir(f.path)
		require.Contains(t, n.dirs, dir)
		n.Remove(dir)
		n.send(Change{Dir: dir, Unwatched: true})
		f.is(time.Second, "one\ntwo\n")
		require.Contains(t, n.dirs, dir)
	})
}

// While logs are idle, one call a period asks for all containers.
func TestFollowersAskTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &states{}
		r := newReader(t, ReaderConfig{States: s, Notify: noNotifier})
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

// Logs in directories that are watched are looked at now and then.
func TestFollowWhatTheNotifierMisses(t *testing.T) {
	followed(t, ReaderConfig{Notify: func() (Notifier, error) { return newScripted(), nil }}, one, func(f *running) {
		f.append(two)
		f.is(0, "one\n")
		f.is(watchedLooks*time.Second, "one\ntwo\n")
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

// tells that a line was written.
type tells struct{ to chan<- struct{} }

func (w tells) Write(p []byte) (int, error) {
	if len(p) > 0 {
		w.to <- struct{}{}
	}
	return len(p), nil
}

func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// An idle follower takes at most 16 KiB, and all of them one inotify instance.
func TestIdleFollowersAreCheap(t *testing.T) {
	const limit = 16 << 10
	n := 500
	if testing.Short() {
		n = 200
	}
	before := memory()
	stop := followMany(t, n)
	each := (memory() - before) / uint64(n)
	for end := time.Now().Add(time.Minute); each > limit && time.Now().Before(end); {
		each = (memory() - before) / uint64(n) // some were still reading
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
	require.LessOrEqual(t, each, uint64(limit))
	require.Equal(t, 1, instances)
}
