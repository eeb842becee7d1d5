package cri

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
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

// requireRefused checks that both clients fail to dial cfg within limit, and that the errors
// contain endpoint and call.
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

// fast is far longer than a refused connection on a loaded machine, and shorter than a call's
// deadline, which a retrying client would reach.
const fast = time.Minute

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

// Dialling an endpoint without a runtime fails at once with the reason.
func TestDialRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		place func(t *testing.T, socket string) // creates the file at socket
		code  codes.Code
		is    error
		text  string
	}{
		"no socket": {func(*testing.T, string) {}, codes.Unavailable, fs.ErrNotExist, "no such file or directory"},
		"a file": {func(t *testing.T, socket string) {
			require.NoError(t, os.WriteFile(socket, nil, 0o600))
		}, codes.Unavailable, syscall.ECONNREFUSED, "is not a socket"},
		"no listener": {func(t *testing.T, socket string) {
			listener := listenUnix(t, socket).(*net.UnixListener)
			listener.SetUnlinkOnClose(false)
			require.NoError(t, listener.Close())
		}, codes.Unavailable, syscall.ECONNREFUSED, "connection refused"},
		"a silent server": {func(t *testing.T, socket string) {
			t.Cleanup(acceptAll(listenUnix(t, socket)))
		}, codes.DeadlineExceeded, context.DeadlineExceeded, "no reply within 200ms"},
		"an HTTP server": {func(t *testing.T, socket string) {
			server := &http.Server{Handler: http.NotFoundHandler()}
			t.Cleanup(serveUntilEnd(server.Serve, listenUnix(t, socket), func() { _ = server.Close() }))
		}, codes.Unavailable, nil, ""},
		"another gRPC server": {func(t *testing.T, socket string) {
			server := grpc.NewServer()
			t.Cleanup(serveUntilEnd(server.Serve, listenUnix(t, socket), server.Stop))
		}, codes.Unimplemented, nil, "the server does not implement CRI runtime.v1"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := ClientConfig{Endpoint: socketPath(t)}
			if name == "a silent server" {
				cfg.RequestTimeout = 200 * time.Millisecond
			}
			c.place(t, cfg.Endpoint)
			err := requireRefused(t, cfg, fast)
			require.Equal(t, c.code, status.Code(err))
			require.ErrorContains(t, err, c.text)
			require.Equal(t, name == "a file", strings.Contains(err.Error(), "is not a socket"))
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
		})
	}
}

func serveUntilEnd(serve func(net.Listener) error, listener net.Listener, end func()) (stop func()) {
	var serving sync.WaitGroup
	serving.Go(func() { _ = serve(listener) })
	return func() {
		end()
		serving.Wait()
	}
}

// With a long request timeout, gRPC's handshake limit of 5 s applies.
func TestDialSilentServerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := memnet.Listen(1 << 16)
		defer acceptAll(listener)()
		begin := time.Now()
		_, err := DialRuntime(t.Context(), ClientConfig{
			Endpoint: "/run/scripted.sock",
			Dial:     func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) },
		})
		requireCallError(t, err, "Version", "")
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.Equal(t, minConnectTimeout, time.Since(begin))
	})
}

// acceptAll accepts connections and never writes.
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

func TestDialBadConfig(t *testing.T) {
	_, err := DialRuntime(t.Context(), ClientConfig{Endpoint: "tcp://x"})
	require.ErrorContains(t, err, `runtime client: ClientConfig.Endpoint: endpoint "tcp://x"`)
	_, err = DialImages(t.Context(), ClientConfig{RequestTimeout: -1})
	require.ErrorContains(t, err, "image client: ClientConfig.RequestTimeout is negative")
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

// While the real socket is absent, calls fail at once; they succeed when it returns. Streams end
// and can be opened again.
func TestRestartsOnASocket(t *testing.T) {
	socket := socketPath(t)
	s := newScript()
	s.stream("GetContainerEvents", func(stream grpc.ServerStream) error {
		if err := sendEvents(stream, 1); err != nil {
			return err
		}
		<-stream.Context().Done()
		return nil
	})
	stop := s.serve(listenUnix(t, socket))
	client := dialRuntime(t, ClientConfig{Endpoint: socket})
	require.Equal(t, "scripted", client.Name())
	for range 3 {
		got, ended := make(chan string), make(chan error)
		go func() {
			ended <- client.GetContainerEvents(t.Context(), func(e *runtimeapi.ContainerEventResponse) { got <- e.ContainerId })
		}()
		require.Equal(t, "0", <-got)
		stop()
		require.ErrorContains(t, <-ended, "runtime unix://"+socket+": GetContainerEvents: Unavailable: ")
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

// jitter is the factor of gRPC's random variation of pauses between attempts to connect.
const jitter = 1.2

// While a runtime is away, for up to an hour, calls in progress fail at once. Afterwards the same
// client works again after a pause that does not grow, and no goroutine leaks.
func TestServerRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := bothClients(t)
		hang := testCall{name: "StopContainer", object: "c", args: args("c", time.Minute)}
		s.hanging(hang.name, true)
		goroutines := 0
		for round, away := range slices.Repeat([]time.Duration{0, time.Millisecond, time.Second, time.Minute, time.Hour}, 3) {
			ended := make(chan error, 1)
			go func() { ended <- n.make(t.Context(), hang) }()
			synctest.Wait()
			s.stop()
			begin := time.Now()
			err := <-ended
			require.Zero(t, time.Since(begin))
			require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
			require.ErrorContains(t, requireCallError(t, err, hang.name, hang.object), ": Unavailable: ")
			require.NotErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, ErrClosed)

			for ; time.Since(begin) < away; time.Sleep(away / 10) {
				_, err := n.runtime.Version(t.Context())
				require.ErrorIs(t, err, syscall.ECONNREFUSED)
				require.Equal(t, codes.Unavailable, status.Code(err))
			}
			s.start()
			took := recovers(t, n.runtime)
			require.LessOrEqual(t, took.Seconds(), reconnectMax.Seconds()*jitter)
			if away < reconnectBase {
				require.LessOrEqual(t, took.Seconds(), reconnectBase.Seconds()*jitter)
			}
			recovers(t, n.images)
			synctest.Wait()
			if round == 1 {
				goroutines = runtime.NumGoroutine()
			}
			if round > 1 { // allows for goroutines of other tests, fewer than 13 leaking rounds
				require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+5, "round %d", round)
			}
		}
	})
}

// recovers returns the time until a call succeeds. It checks that calls before that fail at once.
func recovers(t *testing.T, client any) time.Duration {
	t.Helper()
	begin := time.Now()
	for {
		began := time.Now()
		var err error
		switch client := client.(type) {
		case *RuntimeClient:
			_, err = client.Version(t.Context())
		case *ImageClient:
			_, err = client.ImageFsInfo(t.Context())
		}
		if err == nil {
			return time.Since(begin)
		}
		require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
		require.Zero(t, time.Since(began), "no call waits for a runtime that is away")
		require.Less(t, time.Since(begin), time.Minute)
		time.Sleep(10 * time.Millisecond)
	}
}

func TestCloseEndsCallsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.hanging("StartContainer", true)
		cfg := s.inMemory(t)
		var inFlight error
		cfg.OnCall = func(i CallInfo) { inFlight = i.Err }
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
		requireCallError(t, err, "Version", "")
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, client.Close(), "closing twice is fine")
	})
}

func TestOnCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		cfg := s.inMemory(t)
		var got []CallInfo
		cfg.OnCall = func(i CallInfo) { got = append(got, i) }
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

// Each call uses the context of its span and ends the span with its error.
func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		cfg := s.inMemory(t)
		type ended struct {
			name string
			err  error
		}
		var got []ended
		cfg.Span = func(ctx context.Context, name string) (context.Context, func(error)) {
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

// A call's failure for one object is logged once a minute, and again after a success. Results that
// are no failure of the runtime are not logged.
func TestFailuresAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGoodScript()
		var log bytes.Buffer
		cfg := s.inMemory(t)
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		client := dialRuntime(t, cfg)
		start := func(ctx context.Context, err error) {
			s.fail("StartContainer", err)
			for _, id := range []string{"c1", "c2"} {
				require.Equal(t, err == nil && ctx.Err() == nil, client.StartContainer(ctx, id) == nil)
			}
		}
		requireLines := func(want int) {
			for _, id := range []string{"c1", "c2"} {
				require.Equal(t, want, strings.Count(log.String(), "call=StartContainer id="+id))
			}
		}
		for range 150 { // seconds
			start(t.Context(), errors.New("broken"))
			time.Sleep(time.Second)
		}
		requireLines(3)
		start(t.Context(), nil)
		start(t.Context(), errors.New("broken"))
		requireLines(4)
		start(t.Context(), status.Error(codes.NotFound, "gone"))
		start(t.Context(), status.Error(codes.Unimplemented, "cannot"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start(ctx, errors.New("other"))
		requireLines(4)
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
