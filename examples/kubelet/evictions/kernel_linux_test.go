package evictions

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/syncloop/eviction"
)

// Only thresholds of memory, hard or soft, lead to crossings, which include reclaimable memory.
// Thresholds that are always crossed are ignored.
func TestCrossings(t *testing.T) {
	s := newScene(
		eviction.Threshold{Signal: eviction.MemoryAvailable, Value: eviction.Value{Amount: 100}},
		eviction.Threshold{Signal: eviction.MemoryAvailable, Value: eviction.Value{Amount: 300}, Grace: time.Minute},
		eviction.Threshold{Signal: eviction.MemoryAvailable, Value: eviction.Value{Amount: 1000}},
		eviction.Threshold{Signal: eviction.PIDAvailable, Value: eviction.Value{Amount: 100}},
	)
	m, err := NewMeasurer(s.cfg)
	require.NoError(t, err)
	usages, err := m.crossings(t.Context())
	require.NoError(t, err)
	require.Equal(t, []uint64{950, 750}, usages)
	s.failing["node"] = errors.New("broken")
	require.ErrorContains(t, m.Watch(t.TempDir())(t.Context(), func() {}), "broken")
}

// If a kernel file cannot be opened, the error names it.
func TestWatchWithoutCgroup(t *testing.T) {
	m, err := NewMeasurer(newScene().cfg)
	require.NoError(t, err)
	dir := t.TempDir()
	err = m.Watch(dir)(t.Context(), func() {})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, filepath.Join(dir, "memory.usage_in_bytes"))
}

// The kernel reports each crossing of a threshold by a cgroup's usage.
func TestKernelReportsCrossings(t *testing.T) {
	parent := "/sys/fs/cgroup/memory"
	if _, err := os.Stat(filepath.Join(parent, "cgroup.event_control")); err != nil || os.Geteuid() != 0 {
		t.Skip("needs cgroup v1, and root: ", err)
	}
	dir, err := os.MkdirTemp(parent, "evictions-")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.Remove(dir)) }()
	ctx, cancel := context.WithCancel(t.Context())
	woken, done := make(chan struct{}, 1), make(chan error, 1)
	wake := func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
	go func() {
		for ctx.Err() == nil {
			if err := awaitUsage(ctx, dir, []uint64{5_000_000}, wake); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	uses := func() {
		out, err := exec.Command("sh", "-c", "echo $$ > "+dir+"/cgroup.procs && head -c 30000000 /dev/zero | tail >/dev/null").CombinedOutput()
		require.NoError(t, err, string(out))
	}
	for range 2 {
		require.Eventually(t, func() bool { // until the registration
			uses()
			return len(woken) == 1
		}, time.Minute, 50*time.Millisecond)
		<-woken
	}
	cancel()
	require.NoError(t, <-done)
}
