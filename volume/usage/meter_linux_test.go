package usage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", "f"), make([]byte, 100<<10), 0o600))
	before, err := New(Config{}).Measure(t.Context(), dir, 0)
	require.NoError(t, err)
	require.EqualValues(t, 4, before.Files, "itself, a, b and f")
	require.GreaterOrEqual(t, before.Bytes, int64(100<<10))
	require.Less(t, before.Bytes, int64(200<<10))
	require.Positive(t, before.Capacity)
	require.Positive(t, before.Available)

	for i := range 3 {
		require.NoError(t, os.Link(filepath.Join(dir, "a", "f"), filepath.Join(dir, "a", "b", fmt.Sprint(i))))
	}
	m := New(Config{})
	after, err := m.Measure(t.Context(), dir, 0)
	require.NoError(t, err)
	require.Equal(t, before.Files, after.Files, "hard links are counted once")
	require.Equal(t, before.Bytes, after.Bytes)

	require.NoError(t, os.Symlink("/", filepath.Join(dir, "root")))
	kept, err := m.Measure(t.Context(), dir, time.Hour)
	require.NoError(t, err)
	require.Equal(t, after, kept)
	fresh, err := m.Measure(t.Context(), dir, 0)
	require.NoError(t, err)
	require.Equal(t, after.Files+1, fresh.Files)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = m.Measure(ended, dir, 0)
	require.ErrorIs(t, err, context.Canceled)
	got, ok := m.Known(dir)
	require.True(t, ok)
	require.Equal(t, fresh, got)
	m.Forget(dir)
	_, ok = m.Known(dir)
	require.False(t, ok)
	_, err = m.Measure(t.Context(), filepath.Join(dir, "missing"), 0)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Eventually(t, func() bool { return len(m.Running()) == 0 }, time.Minute, time.Millisecond) // the call whose context ended
}

func TestMounts(t *testing.T) {
	dir := t.TempDir()
	point := filepath.Join(dir, "point")
	require.NoError(t, os.Mkdir(point, 0o700))
	if err := unix.Mount("tmpfs", point, "tmpfs", 0, "size=1048576"); err != nil {
		if os.Getenv("PODWRIGHT_REQUIRE_CRI") == "1" {
			t.Fatal(err)
		}
		t.Skip("cannot mount:", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(point, unix.MNT_DETACH) })
	for i := range 10 {
		require.NoError(t, os.WriteFile(filepath.Join(point, fmt.Sprint(i)), make([]byte, 8192), 0o600))
	}
	m := New(Config{})
	u, err := m.Measure(t.Context(), point, 0)
	require.NoError(t, err)
	require.EqualValues(t, 11, u.Files)
	require.EqualValues(t, 80<<10, u.Bytes)
	require.EqualValues(t, 1<<20, u.Capacity)
	require.EqualValues(t, u.Capacity-u.Bytes, u.Available)
	u, err = m.Measure(t.Context(), dir, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, u.Files, "a mount inside a volume is not counted")
}

// The rate limit applies to all volumes in total, and a wait ends with its context.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace{interval: time.Millisecond}
		begun := time.Now()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 1000 {
					require.NoError(t, p.wait(t.Context()))
				}
			})
		}
		wg.Wait()
		require.InDelta(t, 4, time.Since(begun).Seconds(), 0.1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		p.next = time.Now().Add(time.Hour)
		require.ErrorIs(t, p.wait(ctx), context.DeadlineExceeded)
	})
}

// Concurrent calls for one volume share one walk.
func TestOneWalk(t *testing.T) {
	dir := t.TempDir()
	for i := range 200 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600))
	}
	m := New(Config{})
	m.pace.interval = time.Second / 2000
	var wg sync.WaitGroup
	results := make([]Usage, 5)
	for i := range results {
		wg.Go(func() { results[i], _ = m.Measure(t.Context(), dir, time.Minute) })
	}
	wg.Wait()
	for _, r := range results {
		require.Equal(t, results[0], r)
	}
	require.EqualValues(t, 201, results[0].Files)
}

func ExampleMeter() {
	dir, err := os.MkdirTemp("", "volume")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600); err != nil {
		panic(err)
	}
	m := New(Config{})
	u, err := m.Measure(context.Background(), dir, time.Minute)
	fmt.Println(u.Files, err)
	// Output: 2 <nil>
}
