package oom_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/examples/kubelet/oom"
)

// kernel is a fake log. A test provides the result of each read: a record or an error.
type kernel struct {
	reads  chan any
	closed chan struct{}
	once   sync.Once
}

func newKernel() *kernel { return &kernel{reads: make(chan any), closed: make(chan struct{})} }

func (k *kernel) Read(p []byte) (int, error) {
	select {
	case <-k.closed:
		return 0, &fs.PathError{Op: "read", Path: oom.Device, Err: os.ErrClosed}
	case read := <-k.reads:
		if err, ok := read.(error); ok {
			return 0, &fs.PathError{Op: "read", Path: oom.Device, Err: err}
		}
		return copy(p, read.(string)), nil
	}
}

func (k *kernel) Close() error {
	k.once.Do(func() { close(k.closed) })
	return nil
}

func watched(t *testing.T, test func(k *kernel, kills *[]oom.Kill, log *bytes.Buffer)) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel()
		var kills []oom.Kill
		var log bytes.Buffer
		w, err := oom.New(oom.Config{Log: k, OnKill: func(k oom.Kill) { kills = append(kills, k) }, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		test(k, &kills, &log)
		cancel()
		require.NoError(t, <-ended)
		<-k.closed // the log is closed
		require.ErrorIs(t, w.Run(ctx), oom.ErrAlreadyRun)
	})
}

const (
	summary = "6,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,task_memcg=/a,task=b,pid=7,uid=0\n"
	ofNode  = "3,1,2,-;Out of memory: Killed process 7 (b) total-vm:1kB\n"
)

// Overwritten records do not stop the Watcher. An incomplete kill before them is discarded.
func TestOverwrittenRecords(t *testing.T) {
	watched(t, func(k *kernel, kills *[]oom.Kill, log *bytes.Buffer) {
		k.reads <- summary
		k.reads <- unix.EPIPE
		k.reads <- ofNode
		k.reads <- "6,1,2,-;another line\n"
		synctest.Wait()
		require.Equal(t, []oom.Kill{{PID: 7, Process: "b", Limit: oom.Node}}, *kills)
		for range 30 {
			k.reads <- unix.EPIPE
			k.reads <- ofNode
		}
		synctest.Wait()
		require.Len(t, *kills, 31)
		require.Empty(t, log.String())
	})
}

// After repeated failures the Watcher gives up without a busy loop, and Run continues until ctx is
// done.
func TestBrokenLog(t *testing.T) {
	watched(t, func(k *kernel, kills *[]oom.Kill, log *bytes.Buffer) {
		begun := time.Now()
		for range 11 {
			k.reads <- unix.EIO
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Contains(t, log.String(), "no longer reported")
		require.Contains(t, log.String(), "input/output error")
		require.GreaterOrEqual(t, time.Since(begun), 10*time.Second)
		require.Empty(t, *kills)
	})
	watched(t, func(k *kernel, _ *[]oom.Kill, log *bytes.Buffer) {
		k.reads <- io.EOF
		synctest.Wait()
		require.Contains(t, log.String(), "EOF")
	})
}

// ctx may end during a read or during a pause.
func TestEndOfWatch(t *testing.T) {
	watched(t, func(*kernel, *[]oom.Kill, *bytes.Buffer) { synctest.Wait() })
	watched(t, func(k *kernel, _ *[]oom.Kill, log *bytes.Buffer) {
		k.reads <- unix.EIO
		k.reads <- unix.EIO
		synctest.Wait()
		require.Empty(t, log.String())
	})
}

func TestBadConfig(t *testing.T) {
	_, err := oom.New(oom.Config{})
	require.ErrorContains(t, err, "oom: Config.Log is required")
	require.ErrorContains(t, err, "oom: Config.OnKill is required")
}

// On this machine's kernel: old kills are not reported, a kill by a cgroup's limit is, and the
// Watcher stops although the kernel logs no more records.
func TestThisKernel(t *testing.T) {
	if _, err := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes"); err != nil || os.Geteuid() != 0 {
		t.Skip("takes root, and cgroup v1")
	}
	killedByLimit(t, "/sys/fs/cgroup/memory", "memory.limit_in_bytes")
}

// killedByLimit makes the kernel kill a process of a cgroup, once before and once during a watch.
func killedByLimit(t *testing.T, tree, limitFile string) {
	dir := newCgroup(t, tree)
	require.NoError(t, os.WriteFile(filepath.Join(dir, limitFile), []byte("8M"), 0))
	procs := filepath.Join(dir, "cgroup.procs")
	overLimit(t, procs) // before the watch
	limit := "/" + filepath.Base(dir)
	var pid int
	var k oom.Kill
	for range 10 {
		k = whileWatched(t, func() { pid = overLimit(t, procs) }, func(k oom.Kill) bool { return k.PID == pid })
		if k.Limit != "" {
			break
		}
		time.Sleep(5 * time.Second) // the kernel describes at most ten kills in 5 s; of others it logs only the name
	}
	require.Equal(t, oom.Kill{PID: pid, Process: "tail", Limit: limit, Cgroup: limit}, k)
}

// overLimit runs a process in a cgroup until it exceeds the memory limit, and returns its PID.
func overLimit(t *testing.T, procs string) int {
	t.Helper()
	cmd := exec.Command("sh", "-c", `echo $$ > "$0" && exec tail /dev/zero`, procs)
	err := cmd.Run()
	require.ErrorContains(t, err, "killed")
	return cmd.Process.Pid
}

func newCgroup(t *testing.T, tree string) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp(tree, "podwright-oom-")
	require.NoError(t, err)
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return os.Remove(dir) == nil }, time.Minute, 10*time.Millisecond)
	})
	return dir
}

// whileWatched runs do during a watch and returns the first wanted kill. Others may be killed
// meanwhile.
func whileWatched(t *testing.T, do func(), wanted func(oom.Kill) bool) (found oom.Kill) {
	t.Helper()
	log, err := oom.Open()
	if err != nil {
		t.Skip(err)
	}
	told := make(chan oom.Kill, 100)
	w, err := oom.New(oom.Config{Log: log, OnKill: func(k oom.Kill) { told <- k }})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	do()
	for !wanted(found) {
		select {
		case found = <-told:
		case <-time.After(time.Minute):
			t.Fatal("the kill was not reported")
		}
	}
	cancel()
	require.NoError(t, <-ended)
	_, err = log.Read(make([]byte, 1))
	require.True(t, errors.Is(err, os.ErrClosed), err)
	return found
}

// The same with cgroup v2, and a kill of the node that the administrator triggers.
func TestGuestKernel(t *testing.T) {
	if os.Getenv("PODWRIGHT_GUEST") == "" {
		t.Skip("the test kills a process of the machine")
	}
	killedByLimit(t, "/sys/fs/cgroup", "memory.max")
	victim := exec.Command("sleep", "600")
	require.NoError(t, victim.Start())
	pid := strconv.Itoa(victim.Process.Pid)
	// In a cgroup of its own, because systemd stops units after a kill of a process.
	own := newCgroup(t, "/sys/fs/cgroup")
	require.NoError(t, os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte(pid), 0))
	require.NoError(t, os.WriteFile(filepath.Join("/proc", pid, "oom_score_adj"), []byte("1000"), 0))
	k := whileWatched(t, func() { require.NoError(t, os.WriteFile("/proc/sysrq-trigger", []byte("f"), 0)) }, oom.Kill.OfNode)
	require.Equal(t, victim.Process.Pid, k.PID)
	require.Equal(t, "sleep", k.Process)
	require.Equal(t, "/"+filepath.Base(own), k.Cgroup)
	require.ErrorContains(t, victim.Wait(), "killed")
}
