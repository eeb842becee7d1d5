package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/memnet"
)

// requireRefused checks that dialling cfg with both clients fails within limit
// and that the error names endpoint and call.
func requireRefused(t *testing.T, cfg ClientConfig, limit time.Duration) error {
	t.Helper()
	begin := time.Now()
	runtime, err := DialRuntime(t.Context(), cfg)
	require.Less(t, time.Since(begin), limit)
	require.Nil(t, runtime)
	require.ErrorContains(t, err, "runtime unix://"+cfg.Endpoint+": Version: ")

	begin = time.Now()
	images, imageErr := DialImages(t.Context(), cfg)
	require.Less(t, time.Since(begin), limit)
	require.Nil(t, images)
	require.ErrorContains(t, imageErr, "image unix://"+cfg.Endpoint+": ImageFsInfo: ")
	require.Equal(t, status.Code(err), status.Code(imageErr))
	return err
}

// fast is far above what a refused connection takes on a busy machine, and below
// the deadline of a call, for which a client that tries again would wait.
const fast = time.Minute

// socketPath is a path for a socket, short enough for the system.
func socketPath(t *testing.T) string {
	dir, err := os.MkdirTemp("", "cri")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func listenUnix(t *testing.T, socket string) net.Listener {
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	return listener
}

func TestDialWithoutSocket(t *testing.T) {
	err := requireRefused(t, ClientConfig{Endpoint: socketPath(t)}, fast)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "no such file or directory")
}

func TestDialNotASocket(t *testing.T) {
	socket := socketPath(t)
	require.NoError(t, os.WriteFile(socket, nil, 0o600))
	err := requireRefused(t, ClientConfig{Endpoint: socket}, fast)
	require.ErrorContains(t, err, "is not a socket")
}

func TestDialWhenNobodyListens(t *testing.T) {
	socket := socketPath(t)
	listener := listenUnix(t, socket).(*net.UnixListener)
	listener.SetUnlinkOnClose(false)
	require.NoError(t, listener.Close())
	err := requireRefused(t, ClientConfig{Endpoint: socket}, fast)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.NotContains(t, err.Error(), "is not a socket")
}

func TestDialSilentServer(t *testing.T) {
	socket := socketPath(t)
	listener := listenUnix(t, socket)
	defer acceptAll(listener)()
	err := requireRefused(t, ClientConfig{Endpoint: socket, RequestTimeout: 200 * time.Millisecond}, fast)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "no reply within 200ms")
}

// With a long request timeout the handshake's own limit of 5s decides.
func TestDialSilentServerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := memnet.Listen(1 << 16)
		defer acceptAll(listener)()
		begin := time.Now()
		_, err := DialRuntime(t.Context(), ClientConfig{
			Endpoint: "/run/scripted.sock",
			Dial:     func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) },
		})
		requireCallError(t, err, "Version")
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.Equal(t, minConnectTimeout, time.Since(begin))
	})
}

// acceptAll accepts connections and says nothing on them.
func acceptAll(listener net.Listener) (stop func()) {
	var conns []net.Conn
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
		}
	}()
	return func() {
		_ = listener.Close()
		<-ended
		for _, c := range conns {
			_ = c.Close()
		}
	}
}

func TestDialHTTPServer(t *testing.T) {
	socket := socketPath(t)
	listener := listenUnix(t, socket)
	server := &http.Server{Handler: http.NotFoundHandler()}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	err := requireRefused(t, ClientConfig{Endpoint: socket}, fast)
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.NoError(t, server.Close())
	<-ended
}

func TestDialOtherGRPCServer(t *testing.T) {
	socket := socketPath(t)
	server := grpc.NewServer()
	ended := make(chan struct{})
	listener := listenUnix(t, socket)
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	err := requireRefused(t, ClientConfig{Endpoint: socket}, fast)
	require.True(t, IsUnimplemented(err))
	require.ErrorContains(t, err, "no CRI runtime.v1 here")
	server.Stop()
	<-ended
}

func TestDialBadConfig(t *testing.T) {
	_, err := DialRuntime(t.Context(), ClientConfig{Endpoint: "tcp://x"})
	require.ErrorContains(t, err, `runtime client: Endpoint: endpoint "tcp://x"`)
	_, err = DialImages(t.Context(), ClientConfig{RequestTimeout: -1})
	require.ErrorContains(t, err, "image client: RequestTimeout is negative")
}

func TestDialEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.hanging("Version", true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := DialRuntime(ctx, s.inMemory(t))
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestConnectsAgainAfterARestart(t *testing.T) {
	socket := socketPath(t)
	s := newScript()
	stop := s.serve(listenUnix(t, socket))
	client := dialRuntime(t, ClientConfig{Endpoint: socket})
	require.Equal(t, "scripted", client.Name())
	for range 3 {
		stop()
		require.Eventually(t, func() bool {
			_, err := client.Version(t.Context())
			return errors.Is(err, fs.ErrNotExist) && status.Code(err) == codes.Unavailable &&
				strings.HasPrefix(err.Error(), "runtime unix://"+socket+": Version: Unavailable: ")
		}, time.Minute, time.Millisecond, "fails while the runtime is away")

		stop = s.serve(listenUnix(t, socket))
		require.Eventually(t, func() bool {
			_, err := client.Version(t.Context())
			return err == nil
		}, time.Minute, time.Millisecond, "works when the runtime is back")
	}
	stop()
}

// However long a runtime was away, the client finds it within the longest pause.
func TestReconnectPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, away := newScript(), false
		var mu sync.Mutex
		cfg := s.inMemory(t)
		connect := cfg.Dial
		var conns []net.Conn
		cfg.Dial = func(ctx context.Context, socket string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			if away {
				return nil, syscall.ECONNREFUSED
			}
			conn, err := connect(ctx, socket)
			conns = append(conns, conn)
			return conn, err
		}
		client := dialRuntime(t, cfg)
		mu.Lock()
		away = true
		_ = conns[0].Close()
		mu.Unlock()
		synctest.Wait()
		for begin := time.Now(); time.Since(begin) < time.Hour; time.Sleep(time.Second) {
			_, err := client.Version(t.Context())
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
		}
		mu.Lock()
		away = false
		mu.Unlock()
		time.Sleep(reconnectMax * 12 / 10) // the jitter is a fifth
		_, err := client.Version(t.Context())
		require.NoError(t, err)
	})
}

func TestCloseEndsCallsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.hanging("StartContainer", true)
		cfg := s.inMemory(t)
		var inFlight error
		cfg.Observer.CallDone = func(i CallInfo) { inFlight = i.Err }
		client := dialRuntime(t, cfg)
		ended := make(chan error, 1)
		go func() { ended <- client.StartContainer(t.Context(), "c") }()
		synctest.Wait()
		require.NoError(t, client.Close())
		require.Error(t, inFlight, "Close waits for calls")
		require.Equal(t, inFlight, <-ended)
		require.ErrorIs(t, inFlight, ErrClosed)
		require.NotErrorIs(t, inFlight, context.Canceled)

		_, err := client.Version(t.Context())
		requireCallError(t, err, "Version")
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, client.Close(), "closing twice is fine")
	})
}

func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		cfg := s.inMemory(t)
		var got []CallInfo
		cfg.Observer.CallDone = func(i CallInfo) { got = append(got, i) }
		client := dialRuntime(t, cfg)
		s.hanging("StartContainer", true)
		err := client.StartContainer(t.Context(), "c")
		s.reply("ExecSync", &runtimeapi.ExecSyncResponse{ExitCode: 1})
		_, _, _ = client.ExecSync(t.Context(), "c", nil, 0)
		s.reply("CreateContainer", &runtimeapi.CreateContainerResponse{})
		_, invalid := client.CreateContainer(t.Context(), "s", nil, nil)
		require.Error(t, invalid)
		require.Equal(t, []CallInfo{
			{Service: "runtime", Call: "Version", Operation: "version"},
			{Service: "runtime", Call: "StartContainer", Operation: "start_container", Duration: 2 * time.Minute, Err: err},
			{Service: "runtime", Call: "ExecSync", Operation: "exec_sync"},
			{Service: "runtime", Call: "CreateContainer", Operation: "create_container", Err: invalid},
		}, got)
	})
}

// Each call is made with its span's context, and ends the span as it ends itself.
func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		cfg := s.inMemory(t)
		type ended struct {
			name string
			err  error
		}
		var got []ended
		cfg.Observer.Span = func(ctx context.Context, name string) (context.Context, func(error)) {
			return metadata.AppendToOutgoingContext(ctx, "traceparent", name), func(err error) { got = append(got, ended{name, err}) }
		}
		client := dialRuntime(t, cfg)
		s.fail("ContainerStatus", status.Error(codes.Internal, "broken"))
		_, failed := client.ContainerStatus(t.Context(), "c", false)
		require.Error(t, failed)
		images, err := DialImages(t.Context(), cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, images.Close()) }()
		s.reply("ListImages", &runtimeapi.ListImagesResponse{})
		_, err = images.ListImages(t.Context(), nil)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, client.GetContainerEvents(ctx, func(*runtimeapi.ContainerEventResponse) {}), "which lasts, and has no span")
		require.Contains(t, got, ended{"runtime.v1.RuntimeService/Version", nil})
		require.Contains(t, got, ended{"runtime.v1.RuntimeService/ContainerStatus", failed})
		require.Contains(t, got, ended{"runtime.v1.ImageService/ListImages", nil})
		for _, e := range got {
			require.NotContains(t, e.name, "GetContainerEvents")
		}
		require.Equal(t, []string{"runtime.v1.RuntimeService/ContainerStatus"}, s.calls("ContainerStatus")[0].metadata.Get("traceparent"))
	})
}

func TestRepeatedFailuresAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		var log bytes.Buffer
		cfg := s.inMemory(t)
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		client := dialRuntime(t, cfg)
		s.fail("ContainerStatus", status.Error(codes.Internal, "broken"))
		for range 150 { // seconds
			for _, id := range []string{"c1", "c2"} {
				_, err := client.ContainerStatus(t.Context(), id, false)
				require.Error(t, err)
			}
			time.Sleep(time.Second)
		}
		require.Equal(t, 3, strings.Count(log.String(), "id=c1"))
		require.Equal(t, 3, strings.Count(log.String(), "id=c2"))

		log.Reset()
		s.fail("ContainerStatus", status.Error(codes.NotFound, "gone"))
		_, _ = client.ContainerStatus(t.Context(), "c1", false)
		s.fail("ContainerStatus", status.Error(codes.Unimplemented, "cannot"))
		_, _ = client.ContainerStatus(t.Context(), "c1", false)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _ = client.ContainerStatus(ctx, "c1", false)
		require.Empty(t, log.String(), "what is no failure of the runtime")
	})
}

// A failure that comes back after a success is a new one.
func TestFailureAfterSuccessIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.reply("StartContainer", &runtimeapi.StartContainerResponse{})
		var log bytes.Buffer
		cfg := s.inMemory(t)
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		client := dialRuntime(t, cfg)
		for range 2 {
			s.fail("StartContainer", errors.New("broken"))
			require.Error(t, client.StartContainer(t.Context(), "c"))
			s.fail("StartContainer", nil)
			require.NoError(t, client.StartContainer(t.Context(), "c"))
		}
		require.Equal(t, 2, strings.Count(log.String(), "call=StartContainer"))
	})
}

func TestConcurrentCallsAndClose(t *testing.T) {
	socket := socketPath(t)
	s := newScript()
	defer s.serve(listenUnix(t, socket))()
	client := dialRuntime(t, ClientConfig{Endpoint: socket})
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range 8 {
		wg.Go(func() {
			for {
				if _, err := client.Version(t.Context()); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	time.AfterFunc(20*time.Millisecond, func() { _ = client.Close() })
	wg.Wait()
	for range 8 {
		require.ErrorIs(t, <-errs, ErrClosed)
	}
}

func TestLogLimiter(t *testing.T) {
	limiter := NewLogLimiter(0)
	now := time.Unix(0, 0)
	for _, c := range []struct {
		after        time.Duration
		object, text string
		want         bool
	}{
		{0, "a", "x", true},
		{0, "a", "x", false},
		{0, "b", "x", true},
		{59 * time.Second, "a", "x", false},
		{60 * time.Second, "a", "x", true},
		{61 * time.Second, "a", "y", true},
		{62 * time.Second, "a", "x", true},
	} {
		require.Equal(t, c.want, limiter.Allow(now.Add(c.after), c.object, c.text), "%v %s %s", c.after, c.object, c.text)
	}
	limiter.Forget("a")
	require.True(t, limiter.Allow(now.Add(63*time.Second), "a", "x"))

	for i := range 10_000 { // an object per second
		limiter.Allow(now.Add(time.Hour+time.Duration(i)*time.Second), fmt.Sprint(i), "x")
	}
	require.LessOrEqual(t, len(limiter.last), 121)
}
