package csi_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/csi"
	"github.com/podwright/podwright/examples/kubelet/csi/csitest"
	volumecsi "github.com/podwright/podwright/volume/csi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type world struct {
	*testing.T
	*csi.Registry
	folder string
}

func newWorld(t *testing.T, change ...func(*csi.RegistryConfig)) *world {
	root, err := os.MkdirTemp("", "csi") // paths of sockets must be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	w := &world{T: t, folder: filepath.Join(root, "reg")}
	cfg := csi.RegistryConfig{Folder: w.folder}
	for _, c := range change {
		c(&cfg)
	}
	w.Registry, err = csi.NewRegistry(cfg)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(w.folder, 0o750))
	t.Cleanup(func() { require.ErrorIs(t, w.Registry.Run(t.Context()), csi.ErrAlreadyRun) })
	apitest.Run(t, w.Registry.Run)
	return w
}

func (w *world) eventually(what string, f func() bool) {
	w.Helper()
	require.Eventually(w, f, time.Minute, 5*time.Millisecond, what)
}

// start starts a driver that stops at the end of the test.
func (w *world) start(d *csitest.Driver) *csitest.Driver {
	if d.Registry == "" {
		d.Registry = w.folder
	}
	if d.Socket == "" {
		d.Socket = filepath.Join(filepath.Dir(w.folder), d.Name+d.RegistrySocket+".sock")
	}
	require.NoError(w, d.Start())
	w.Cleanup(d.Stop)
	return d
}

func TestRegistration(t *testing.T) {
	gone := make(chan string, 9)
	w := newWorld(t, func(c *csi.RegistryConfig) { c.OnDeregistered = func(name string) { gone <- name } })
	below := filepath.Join(w.folder, "deep", "er")
	require.NoError(t, os.MkdirAll(below, 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(w.folder, "file"), nil, 0o600))
	hidden := w.start(&csitest.Driver{Name: "hidden", RegistrySocket: ".hidden"})
	first := w.start(&csitest.Driver{Name: "first"})
	deep := w.start(&csitest.Driver{Name: "deep", Registry: below})
	for _, d := range []*csitest.Driver{first, deep} {
		w.eventually("told", func() bool { return len(d.Told()) == 1 })
		require.True(t, d.Told()[0].PluginRegistered)
		require.NotNil(t, w.Driver(d.Name))
		node, registered := w.Node(d.Name)
		require.True(t, registered)
		require.Equal(t, csi.NodeInfo{NodeID: "id-of-" + d.Name, MaxVolumes: 7, Topology: map[string]string{"zone": "a"}}, node)
	}
	require.Empty(t, hidden.Calls())
	require.Nil(t, w.Driver("hidden"))
	_, registered := w.Node("hidden")
	require.False(t, registered)

	first.Stop()
	require.Equal(t, "first", <-gone)
	require.Nil(t, w.Driver("first"))
	require.NotNil(t, w.Driver("deep"))
	require.NoError(t, first.Start())
	w.eventually("back", func() bool { return w.Driver("first") != nil })
}

// A registered driver is reported to OnReady, and its NodeGetInfo call to Metrics.
func TestReady(t *testing.T) {
	ready, calls := make(chan string, 9), make(chan volumecsi.Call, 9)
	w := newWorld(t, func(c *csi.RegistryConfig) {
		c.OnReady = func(name string) { ready <- name }
		c.Metrics.OnCall = func(c volumecsi.Call) { calls <- c }
	})
	d := w.start(&csitest.Driver{Name: "d"})
	require.Equal(t, "d", <-ready)
	require.NotNil(t, w.Driver("d"))
	require.True(t, d.Told()[0].PluginRegistered)
	c := <-calls
	require.Equal(t, "d NodeGetInfo", c.Driver+" "+c.Method)
	require.NoError(t, c.Err)
}

// A socket may have any path.
func TestUnusualPaths(t *testing.T) {
	w := newWorld(t)
	w.start(&csitest.Driver{Name: "d", RegistrySocket: "100%?a b#.sock", Socket: filepath.Join(filepath.Dir(w.folder), "%zz?:.sock")})
	w.eventually("registered", func() bool { return w.Driver("d") != nil })
	_, err := w.Driver("d").Capabilities(t.Context())
	require.NoError(t, err)
}

// A replaced folder is scanned.
func TestFolderIsReplaced(t *testing.T) {
	w := newWorld(t, func(c *csi.RegistryConfig) { c.Period = 50 * time.Millisecond })
	w.start(&csitest.Driver{Name: "old"})
	w.eventually("registered", func() bool { return w.Driver("old") != nil })
	require.NoError(t, os.Rename(w.folder, w.folder+".away"))
	w.eventually("gone", func() bool { return w.Driver("old") == nil })
	require.NoError(t, os.Mkdir(w.folder, 0o750))
	w.start(&csitest.Driver{Name: "new"})
	w.eventually("registered", func() bool { return w.Driver("new") != nil })
}

// Without drivers a registry has one goroutine and one inotify watch.
func TestIdleRegistryIsCheap(t *testing.T) {
	before := runtime.NumGoroutine()
	w := newWorld(t)
	watches := func() (n int) {
		infos, err := filepath.Glob("/proc/self/fdinfo/*")
		require.NoError(t, err)
		for _, info := range infos {
			text, _ := os.ReadFile(info) // it may be closed by now
			n += strings.Count(string(text), "inotify wd:")
		}
		return n
	}
	w.eventually("one watch, and one goroutine besides this check", func() bool { return watches() == 1 && runtime.NumGoroutine() <= before+2 })
}

// V23: of two drivers with one name, the higher version is registered.
func TestV23Versions(t *testing.T) {
	w := newWorld(t)
	w.start(&csitest.Driver{Name: "d", Versions: []string{"1.0.0", "1.2.0"}})
	w.eventually("registered", func() bool { return w.Driver("d") != nil })
	used := w.Driver("d")
	for _, version := range []string{"1.1.0", "1.2.0", "0.3.0", "nonsense"} {
		lower := w.start(&csitest.Driver{Name: "d", Versions: []string{version}, RegistrySocket: version + ".sock"})
		w.eventually("told", func() bool { return len(lower.Told()) > 0 })
		require.False(t, lower.Told()[0].PluginRegistered)
		require.NotEmpty(t, lower.Told()[0].Error)
		require.Same(t, used, w.Driver("d"))
		lower.Stop()
	}
	higher := w.start(&csitest.Driver{Name: "d", Versions: []string{"1.3.0"}, RegistrySocket: "higher.sock"})
	w.eventually("told", func() bool { return len(higher.Told()) > 0 })
	require.True(t, higher.Told()[0].PluginRegistered)
	require.NotSame(t, used, w.Driver("d"))
}

// A hanging plugin, or a socket without a listener, does not block others.
func TestHangingPluginBlocksNoOther(t *testing.T) {
	w := newWorld(t)
	hang := func(method string) func(context.Context, string) error {
		return func(ctx context.Context, m string) error {
			if m == method {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
	}
	silent, err := net.Listen("unix", filepath.Join(w.folder, "silent.sock"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	for _, method := range []string{"GetInfo", "NodeGetInfo", "NotifyRegistrationStatus"} {
		w.start(&csitest.Driver{Name: method, Fault: hang(method)})
	}
	good := w.start(&csitest.Driver{Name: "good"})
	w.eventually("told", func() bool { return len(good.Told()) == 1 })
	require.Nil(t, w.Driver("NodeGetInfo"))
	w.eventually("the absence has the start time", func() bool { return strings.Contains(w.Absence("NodeGetInfo"), "registering since 20") })
	require.Empty(t, w.Absence("good")+w.Absence("unknown"))
}

// A failed NodeGetInfo is retried.
func TestFailedNodeGetInfoIsRetried(t *testing.T) {
	var asked atomic.Bool
	w := newWorld(t)
	d := w.start(&csitest.Driver{Name: "d", Fault: func(_ context.Context, method string) error {
		if method == "NodeGetInfo" && !asked.Swap(true) {
			return errors.New("not yet")
		}
		return nil
	}})
	w.eventually("notified twice", func() bool { return len(d.Told()) == 2 })
	require.False(t, d.Told()[0].PluginRegistered)
	require.Contains(t, d.Told()[0].Error, "not yet")
	require.True(t, d.Told()[1].PluginRegistered)
}

// Only some codes mean that a call had no effect.
func TestCodes(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	code := codes.OK
	d := w.start(&csitest.Driver{Name: "d", Fault: func(context.Context, string) error {
		mu.Lock()
		defer mu.Unlock()
		return status.Error(code, "x")
	}})
	client, err := csi.Dial(d.Socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	open := map[codes.Code]bool{
		codes.Canceled: true, codes.DeadlineExceeded: true, codes.Unavailable: true,
		codes.ResourceExhausted: true, codes.Aborted: true,
	}
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		mu.Lock()
		code = c
		mu.Unlock()
		err := client.Unpublish(t.Context(), "v", "/p")
		require.Error(t, err)
		require.Equal(t, !open[c], errors.Is(err, volumecsi.ErrFinal), c.String())
	}
	d.Stop()
	err = client.Unpublish(t.Context(), "v", "/p")
	require.Error(t, err)
	require.NotErrorIs(t, err, volumecsi.ErrFinal)
}

func TestConfig(t *testing.T) {
	_, err := csi.NewRegistry(csi.RegistryConfig{Period: -1, ShutdownTimeout: -1})
	for _, want := range []string{"Folder is required", "Period is negative", "ShutdownTimeout is negative"} {
		require.ErrorContains(t, err, "csi: RegistryConfig."+want)
	}
}
