package agent

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/oom"
)

// heard collects events.
type heard struct {
	mu     sync.Mutex
	events []string
}

func (h *heard) event(ref v1.ObjectReference, eventtype, reason, message string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, ref.APIVersion+" "+ref.Kind+" "+ref.Name+" "+string(ref.UID)+" "+eventtype+" "+reason+": "+message)
}

// Who is killed since the node has no memory is an event about the node; who is over the limit of
// a cgroup is not.
func TestSystemOOM(t *testing.T) {
	var h heard
	g := &ground{event: h.event}
	g.cfg.Flags.NodeName = "n1"
	g.killed(oom.Kill{PID: 7, Process: "a", Limit: "/kubepods/pod1", Cgroup: "/kubepods/pod1/c"})
	g.killed(oom.Kill{PID: 8, Process: "b"})
	g.killed(oom.Kill{PID: 9, Process: "java", Limit: oom.Node, Cgroup: "/system.slice/x.service"})
	require.Equal(t, []string{"v1 Node n1 n1 Warning SystemOOM: System OOM encountered, victim process: java, pid: 9"}, h.events)
}

// record is a log with one record, and no more.
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

// An agent reads the kernel's log while it runs, and no longer. One that cannot be read ends it
// before it has begun; one that there is not is none of its matters.
func TestKernelLog(t *testing.T) {
	rt, err := fake.New(fake.Config{AnyImage: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	log := &record{text: "3,1,2,-;Out of memory: Killed process 9 (java) total-vm:1kB\n", read: make(chan struct{}), closed: make(chan struct{})}
	for name, c := range map[string]struct {
		open func() (io.ReadCloser, error)
		read chan struct{}
		err  string
	}{
		"read":       {open: func() (io.ReadCloser, error) { return log, nil }, read: log.read},
		"not there":  {open: func() (io.ReadCloser, error) { return nil, nil }},
		"not wanted": {},
		"forbidden":  {open: func() (io.ReadCloser, error) { return nil, errors.New("kernel log: not permitted") }, err: "kernel log: not permitted"},
	} {
		t.Run(name, func(t *testing.T) {
			connected := make(chan struct{})
			var once sync.Once
			cfg := configOf(t.TempDir(), func(context.Context) (*Connection, error) {
				once.Do(func() { close(connected) })
				return &Connection{Runtime: rt, Images: rt, Name: "fake", Close: func() error { return nil }}, nil
			})
			cfg.KernelLog = c.open
			a, err := New(cfg)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- a.Run(ctx) }()
			if c.err != "" {
				require.ErrorContains(t, <-ended, c.err)
				select {
				case <-connected:
					t.Fatal("nothing was to begin")
				default:
				}
				return
			}
			<-connected
			if c.read != nil {
				<-c.read
			}
			cancel()
			require.NoError(t, <-ended)
		})
	}
	<-log.closed
}
