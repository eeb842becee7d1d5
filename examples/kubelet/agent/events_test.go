package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/oom"
)

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// A repeated warning is logged once a minute; other events are always logged.
func TestRepeatedWarningsAreLoggedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		event := logEvents(slog.New(slog.NewTextHandler(&log, nil)), func(uid types.UID) string { return map[types.UID]string{"2": "/m/b.yaml"}[uid] })
		ref := v1.ObjectReference{Namespace: "ns", Name: "a", UID: "1"}
		for range 10 {
			event(ref, v1.EventTypeWarning, "BackOff", "again")
			event(ref, v1.EventTypeNormal, "Started", "once more")
		}
		require.Equal(t, 1, log.count("again"))
		require.Equal(t, 10, log.count("once more"))
		event(v1.ObjectReference{Namespace: "ns", Name: "b", UID: "2"}, v1.EventTypeWarning, "BackOff", "again")
		require.Equal(t, 2, log.count("again"))
		require.Equal(t, 1, log.count("pod=ns/b field=\"\" manifest=/m/b.yaml"))
		require.Equal(t, 1, log.count("manifest="))
		time.Sleep(time.Minute)
		event(ref, v1.EventTypeWarning, "BackOff", "again")
		require.Equal(t, 3, log.count("again"))
	})
}

type recordedEvents struct {
	mu     sync.Mutex
	events []string
}

func (h *recordedEvents) event(ref v1.ObjectReference, eventtype, reason, message string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, ref.APIVersion+" "+ref.Kind+" "+ref.Name+" "+string(ref.UID)+" "+eventtype+" "+reason+": "+message)
}

// A kill because the node is out of memory is an event about the node; a kill for the limit of a
// cgroup is not.
func TestSystemOOM(t *testing.T) {
	var h recordedEvents
	r := recorder{node: nodeReference("n1"), log: h.event}
	r.killed(oom.Kill{PID: 7, Process: "a", Limit: "/kubepods/pod1", Cgroup: "/kubepods/pod1/c"})
	r.killed(oom.Kill{PID: 8, Process: "b"})
	r.killed(oom.Kill{PID: 9, Process: "java", Limit: oom.Node, Cgroup: "/system.slice/x.service"})
	require.Equal(t, []string{"v1 Node n1 n1 Warning SystemOOM: System OOM encountered, victim process: java, pid: 9"}, h.events)
}

type record struct {
	text   string
	read   chan struct{}
	closed chan struct{}
	once   sync.Once
}

func (r *record) Read(p []byte) (n int, err error) {
	if text := r.text; text != "" {
		r.text = ""
		return copy(p, text), nil
	}
	r.once.Do(func() { close(r.read) })
	<-r.closed
	return 0, io.ErrClosedPipe
}

func (r *record) Close() error {
	close(r.closed)
	return nil
}

// An agent reads the kernel's log while it runs, and closes it afterwards. A log that cannot be
// opened ends the agent at its start. A missing log is no error.
func TestKernelLog(t *testing.T) {
	log := &record{text: "3,1,2,-;Out of memory: Killed process 9 (java) total-vm:1kB\n", read: make(chan struct{}), closed: make(chan struct{})}
	for name, open := range map[string]func() (io.ReadCloser, error){
		"read":       func() (io.ReadCloser, error) { return log, nil },
		"not there":  func() (io.ReadCloser, error) { return nil, nil },
		"not wanted": nil,
	} {
		t.Run(name, func(t *testing.T) {
			n := newPodsNode(t, fake.Config{}, "p")
			n.cfg.KernelLog = open
			n.during(t, func(a *Agent) {
				soon(t, func() bool { return runs(a) })
				if name == "read" {
					<-log.read
				}
			})
		})
	}
	<-log.closed

	cfg := configOf(t.TempDir(), func(context.Context) (*Connection, error) {
		t.Error("Run must fail before it connects")
		return noRuntime(t.Context())
	})
	cfg.KernelLog = func() (io.ReadCloser, error) { return nil, errors.New("kernel log: not permitted") }
	a, err := New(cfg)
	require.NoError(t, err)
	require.ErrorContains(t, a.Run(t.Context()), "kernel log: not permitted")
}
