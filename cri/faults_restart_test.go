package cri_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
)

const (
	// firstPause and longestPause are the documented pauses between attempts to
	// connect, with the fifth by which gRPC varies them.
	firstPause   = 100 * time.Millisecond * 6 / 5
	longestPause = 3 * time.Second * 6 / 5

	// slack is for goroutines that have nothing to do with the test. What a round
	// leaves behind is more after twenty of them.
	slack = 5
)

// hanging are calls that hang, one of them a stream.
const hanging = "StopContainer: hang\nPullImage: hang\nListPodSandbox: hang"

// startHanging makes calls that hang and returns how they end.
func (n *node) startHanging(t *testing.T) <-chan error {
	ended := make(chan error, 4)
	for _, name := range []string{"StopContainer", "PullImage", "ListPodSandbox", "GetContainerEvents"} {
		c := callNamed(t, name)
		go func() { ended <- c.make(t.Context(), n) }()
	}
	synctest.Wait()
	require.Empty(t, ended, "all calls hang")
	return ended
}

// requireCut checks that calls that were under way have failed by now, and say
// that the runtime went away.
func requireCut(t *testing.T, ended <-chan error) {
	t.Helper()
	synctest.Wait()
	require.Len(t, ended, cap(ended))
	for range cap(ended) {
		err := <-ended
		var e *cri.CallError
		require.ErrorAs(t, err, &e)
		require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
		require.ErrorContains(t, err, e.Call)
		require.ErrorContains(t, err, ": Unavailable: ")
		require.NotErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, cri.ErrClosed)
	}
}

// recovers tells how long it takes until a call works again. All that fail until
// then are Unavailable, and say so at once.
func (n *node) recovers(t *testing.T) time.Duration {
	t.Helper()
	begin := time.Now()
	for {
		asked := time.Now()
		_, err := n.runtime.Version(t.Context())
		if err == nil {
			_, err = n.images.ImageFsInfo(t.Context())
		}
		if err == nil {
			return time.Since(begin)
		}
		require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
		require.Zero(t, time.Since(asked), "nobody waits for a runtime that is away")
		require.Less(t, time.Since(begin), time.Minute)
		time.Sleep(10 * time.Millisecond)
	}
}

// The runtime ends and comes again twenty times, for no time up to an hour. Calls
// under way fail at once, the same clients work again after a pause that does
// not grow, and nothing is left behind.
func TestServerRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nodeConfig{script: hanging})
		goroutines := 0
		for round := range 20 {
			ended := n.startHanging(t)
			begin := time.Now()
			n.stop()
			requireCut(t, ended)
			require.Zero(t, time.Since(begin))

			away := []time.Duration{0, time.Millisecond, time.Second, time.Minute, time.Hour}[round%5]
			for begin := time.Now(); time.Since(begin) < away; time.Sleep(away / 10) {
				_, err := n.runtime.Version(t.Context())
				require.ErrorIs(t, err, errNobodyListens)
				require.Equal(t, codes.Unavailable, status.Code(err))
			}
			n.serve()
			took := n.recovers(t)
			require.LessOrEqual(t, took, longestPause)
			if away < firstPause {
				require.LessOrEqual(t, took, firstPause)
			}
			synctest.Wait()
			if round == 1 {
				goroutines = runtime.NumGoroutine()
			}
			if round > 1 {
				require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+slack, "round %d", round)
			}
		}
	})
}

// While the fake's own process is away, with its listener in place, and after it
// has come back with and without its state.
func TestRuntimeRestarts(t *testing.T) {
	for _, loss := range []fake.Loss{fake.LoseNothing, fake.LoseProcesses, fake.LoseAll} {
		t.Run(loss.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, nodeConfig{script: hanging})
				goroutines := 0
				for round := range 20 {
					ended := n.startHanging(t)
					n.fake.Stop()
					requireCut(t, ended)
					for range 5 {
						_, err := n.runtime.ListContainers(t.Context(), nil)
						require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
						time.Sleep(time.Second)
					}
					require.NoError(t, n.fake.Start(t.Context(), fake.StartOptions{Loss: loss}))
					require.LessOrEqual(t, n.recovers(t), longestPause)
					n.requireFound(t, loss)
					require.Equal(t, "fake", n.runtime.Name())
					n.requireSandboxEvent(t)

					synctest.Wait()
					if round == 1 {
						goroutines = runtime.NumGoroutine()
					}
					if round > 1 {
						require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+slack, "round %d", round)
					}
				}
			})
		})
	}
}

// requireFound checks what the client sees of the pod after a restart.
func (n *node) requireFound(t *testing.T, loss fake.Loss) {
	t.Helper()
	reply, err := n.runtime.ContainerStatus(t.Context(), n.container, false)
	list, listErr := n.runtime.ListContainers(t.Context(), nil)
	require.NoError(t, listErr)
	switch loss {
	case fake.LoseNothing:
		require.NoError(t, err)
		require.Equal(t, runtimeapi.ContainerState_CONTAINER_RUNNING, reply.Status.State)
		require.Len(t, list, 1)
	case fake.LoseProcesses:
		require.NoError(t, err)
		require.Equal(t, runtimeapi.ContainerState_CONTAINER_EXITED, reply.Status.State)
		require.EqualValues(t, 255, reply.Status.ExitCode)
		require.Len(t, list, 1)
	case fake.LoseAll:
		require.True(t, cri.IsNotFound(err), "%v", err)
		requireCallFailed(t, err, "ContainerStatus", n.container)
		require.Empty(t, list)
	}
}

// A call that brings the runtime down fails itself, and the next ones work.
func TestCallThatRestartsTheRuntime(t *testing.T) {
	for name, step := range map[string]string{"with its state": "restart", "without": "restart losing state"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, nodeConfig{script: "2nd ListContainers: " + step})
				for round := range 3 {
					list, err := n.runtime.ListContainers(t.Context(), nil)
					if round == 1 {
						require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
						require.Nil(t, list)
						require.LessOrEqual(t, n.recovers(t), longestPause)
						continue
					}
					require.NoError(t, err)
					require.Equal(t, round == 0 || step == "restart", len(list) == 1)
				}
			})
		})
	}
}

// Nobody waits for a runtime that is not there, dialling included.
func TestDialWhileTheRuntimeIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nodeConfig{})
		dial := func() error {
			begin := time.Now()
			client, err := cri.DialRuntime(t.Context(), n.cfg)
			require.Zero(t, time.Since(begin))
			if err == nil {
				require.NoError(t, client.Close())
			}
			return err
		}
		require.NoError(t, dial())
		n.fake.Stop() // takes connections and drops them
		require.Equal(t, codes.Unavailable, status.Code(dial()))
		n.stop()
		err := dial()
		require.ErrorIs(t, err, errNobodyListens)
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.NoError(t, n.fake.Start(t.Context(), fake.StartOptions{}))
		n.serve()
		require.NoError(t, dial())
	})
}

// onSocket serves a fake on a unix socket until the result is called.
func onSocket(t *testing.T, rt *fake.Runtime, socket string) (stop func()) {
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() { _ = rt.Serve(ctx, listener) })
	return func() {
		cancel()
		serving.Wait()
	}
}

// The same with a real socket, which is gone while the runtime is away.
func TestRestartsOnASocket(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	dir, err := os.MkdirTemp("", "cri") // t.TempDir may be too long for a socket
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	rt, err := fake.New(fake.Config{AnyImage: true})
	require.NoError(t, err)
	defer rt.Close()
	stop := onSocket(t, rt, socket)
	defer func() { stop() }()
	client, err := cri.DialRuntime(t.Context(), cri.ClientConfig{Endpoint: socket})
	require.NoError(t, err)
	defer client.Close()

	goroutines := 0
	for round := range rounds {
		ended := make(chan error, 1)
		opened := make(chan struct{}, 1)
		go func() {
			ended <- client.GetContainerEvents(t.Context(), func(*runtimeapi.ContainerEventResponse) {
				select {
				case opened <- struct{}{}:
				default:
				}
			})
		}()
		require.Eventually(t, func() bool { // an event shows that the stream is open
			sandbox, err := rt.RunPodSandbox(t.Context(), podConfig("probe"), "")
			require.NoError(t, err)
			require.NoError(t, rt.RemovePodSandbox(t.Context(), sandbox))
			return len(opened) > 0
		}, time.Minute, time.Millisecond)
		stop()
		require.Equal(t, codes.Unavailable, status.Code(<-ended))
		require.Eventually(t, func() bool {
			_, err := client.Version(t.Context())
			return errors.Is(err, fs.ErrNotExist) && status.Code(err) == codes.Unavailable
		}, time.Minute, time.Millisecond)

		stop = onSocket(t, rt, socket)
		require.Eventually(t, func() bool {
			_, err := client.Version(t.Context())
			return err == nil
		}, time.Minute, time.Millisecond)
		if round == 0 {
			goroutines = runtime.NumGoroutine()
		}
		require.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+slack }, time.Minute, time.Millisecond,
			"goroutines do not add up")
	}
}
