package fake_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
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

// add creates a container, and starts it if started is true.
func add(t *testing.T, rt *fake.Runtime, sandboxID, name string, started bool) string {
	t.Helper()
	config := containerConfig("p", name)
	config.LogPath = name + ".log"
	id, err := rt.CreateContainer(t.Context(), sandboxID, config, podConfig("p"))
	require.NoError(t, err)
	if started {
		require.NoError(t, rt.StartContainer(t.Context(), id))
	}
	return id
}

func brief(s *runtimeapi.ContainerStatus) string {
	return fmt.Sprintf("%s %d %s", strings.TrimPrefix(s.State.String(), "CONTAINER_"), s.ExitCode, s.Reason)
}

// The status of containers after each kind of loss equals the status in containerd after a kill of
// its process or its shims.
func TestWhatARestartFinds(t *testing.T) {
	for _, tc := range []struct {
		name    string
		loss    fake.Loss
		want    map[string]string
		sandbox runtimeapi.PodSandboxState
	}{
		{"nothing is lost", fake.LoseNothing, map[string]string{
			"runs": "RUNNING 0 ", "created": "CREATED 0 ", "exited": "EXITED 3 Error", "ends": "EXITED 7 Error",
		}, runtimeapi.PodSandboxState_SANDBOX_READY},
		{"the processes are lost", fake.LoseProcesses, map[string]string{
			"runs": "EXITED 255 Unknown", "created": "CREATED 0 ", "exited": "EXITED 3 Error", "ends": "EXITED 255 Unknown",
		}, runtimeapi.PodSandboxState_SANDBOX_NOTREADY},
		{"everything is lost", fake.LoseAll, nil, 0},
	} {
		bubble(t, tc.name, func(t *testing.T) {
			var alive atomic.Int32
			rt := start(t, fake.Config{AnyImage: true, Programs: fake.ByContainer(map[string]fake.Program{
				"exited": fake.Exit(3), "ends": after(10*time.Second, 7),
				"runs": func(ctx context.Context, _ *fake.Process) int {
					alive.Add(1)
					<-ctx.Done()
					alive.Add(-1)
					return 0
				},
			}, nil)})
			sandboxID := sandbox(t, rt, "p")
			before, err := rt.PodSandboxStatus(t.Context(), sandboxID, false)
			require.NoError(t, err)
			ids := map[string]string{}
			for _, name := range []string{"runs", "created", "exited", "ends"} {
				ids[name] = add(t, rt, sandboxID, name, name != "created")
			}
			synctest.Wait()
			began := time.Now()
			rt.Stop()
			time.Sleep(time.Minute)
			require.NoError(t, rt.Start(t.Context(), tc.loss))

			if tc.want == nil {
				require.Zero(t, alive.Load())
				list, err := rt.ListPodSandbox(t.Context(), nil)
				require.NoError(t, err)
				require.Empty(t, list)
				_, err = rt.ContainerStatus(t.Context(), ids["runs"], false)
				require.True(t, cri.IsNotFound(err))
				again, err := rt.RunPodSandbox(t.Context(), podConfig("p"), "")
				require.NoError(t, err, "the name is free")
				add(t, rt, again, "runs", true)
				return
			}
			for name, want := range tc.want {
				require.Equal(t, want, brief(statusOf(t, rt, ids[name])), name)
			}
			ended := time.Unix(0, statusOf(t, rt, ids["ends"]).FinishedAt)
			if tc.loss == fake.LoseNothing {
				require.Equal(t, 10*time.Second, ended.Sub(began), "its own time")
			} else {
				require.Equal(t, time.Minute, ended.Sub(began), "the time of the start")
			}
			response, err := rt.PodSandboxStatus(t.Context(), sandboxID, false)
			require.NoError(t, err)
			require.Equal(t, tc.sandbox, response.Status.State)
			require.Equal(t, before.Status.Network.Ip, response.Status.Network.Ip, "known until the sandbox is stopped")
			err = rt.StartContainer(t.Context(), ids["created"])
			if tc.loss == fake.LoseNothing {
				require.Error(t, err, "no such program here")
				require.EqualValues(t, 1, alive.Load())
				return
			}
			require.ErrorContains(t, err, "is not running")
			require.Equal(t, "EXITED 128 StartError", brief(statusOf(t, rt, ids["created"])))
			require.NoError(t, rt.StopPodSandbox(t.Context(), sandboxID))
			response, err = rt.PodSandboxStatus(t.Context(), sandboxID, false)
			require.NoError(t, err)
			require.Empty(t, response.Status.Network.Ip)
			require.NoError(t, rt.RemovePodSandbox(t.Context(), sandboxID))
			require.Zero(t, alive.Load())
		})
	}
}

// The address that a sandbox shows after a reboot stays reserved until the sandbox is stopped.
func TestAddressesAfterAReboot(t *testing.T) {
	rt := start(t, fake.Config{})
	first := sandbox(t, rt, "p")
	require.NoError(t, rt.Restart(t.Context(), fake.LoseProcesses))
	require.NoError(t, rt.StopPodSandbox(t.Context(), first))
	require.NoError(t, rt.StopPodSandbox(t.Context(), first))
	require.NoError(t, rt.Restart(t.Context(), fake.LoseAll))
	_, err := rt.RunPodSandbox(t.Context(), podConfig("p"), "")
	require.NoError(t, err)
}

// A restart forgets the stop signal: the next stop sends it again.
func TestStopSignalIsSentAgainAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got atomic.Int32
		rt := start(t, fake.Config{AnyImage: true, Programs: fake.Always(func(ctx context.Context, p *fake.Process) int {
			for {
				select {
				case <-p.Signals():
					got.Add(1)
				case <-ctx.Done():
					return 0
				}
			}
		})})
		_, id := running(t, rt)
		synctest.Wait()
		for want := 1; want <= 2; want++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			require.Error(t, rt.StopContainer(ctx, id, time.Hour))
			require.Error(t, rt.StopContainer(ctx, id, time.Hour))
			cancel()
			synctest.Wait()
			require.EqualValues(t, want, got.Load())
			require.NoError(t, rt.Restart(t.Context(), fake.LoseNothing))
		}
	})
}

// Output written while the runtime is down is logged later, with the later time. A program that
// fills the pipe blocks.
func TestLogsWhileTheRuntimeIsDown(t *testing.T) {
	for _, loss := range []fake.Loss{fake.LoseNothing, fake.LoseProcesses} {
		bubble(t, loss.String(), func(t *testing.T) {
			memory := &memoryLogs{}
			var full atomic.Bool
			rt := start(t, fake.Config{AnyImage: true, OpenLog: memory.open, Programs: fake.ByContainer(map[string]fake.Program{
				"talks": func(ctx context.Context, p *fake.Process) int {
					for i := 0; ctx.Err() == nil; i++ {
						fmt.Fprintf(p.Stdout, "line %d\n", i)
						time.Sleep(time.Second)
					}
					fmt.Fprintln(p.Stdout, "last words, lost with the pipes")
					return 0
				},
				"ends": func(_ context.Context, p *fake.Process) int {
					time.Sleep(5 * time.Second)
					fmt.Fprint(p.Stdout, "last words")
					return 0
				},
				"floods": func(ctx context.Context, p *fake.Process) int {
					time.Sleep(5 * time.Second)
					_, err := p.Stdout.Write(bytes.Repeat([]byte("0123456789abcde\n"), 5000))
					full.Store(err == nil)
					<-ctx.Done()
					return 0
				},
			}, nil)})
			sandboxID, err := rt.RunPodSandbox(t.Context(), logs(podConfig("p")), "")
			require.NoError(t, err)
			for _, name := range []string{"talks", "ends", "floods"} {
				add(t, rt, sandboxID, name, true)
			}
			time.Sleep(1500 * time.Millisecond)
			rt.Stop()
			time.Sleep(10 * time.Second)
			require.False(t, full.Load(), "the pipe is full")
			require.Empty(t, memory.text("/logs/p/ends.log"))
			require.NoError(t, rt.Start(t.Context(), loss))
			started := time.Now().UTC().Format(time.RFC3339Nano)
			time.Sleep(time.Second)
			talks := strings.Split(strings.TrimSpace(memory.text("/logs/p/talks.log")), "\n")
			if loss != fake.LoseNothing {
				require.Len(t, talks, 2, "the pipes are gone")
				require.Empty(t, memory.text("/logs/p/ends.log"))
				require.False(t, full.Load())
				require.True(t, memory.closed("/logs/p/ends.log"))
				return
			}
			require.Len(t, talks, 13)
			for i, line := range talks {
				require.True(t, strings.HasSuffix(line, fmt.Sprintf(" stdout F line %d", i)), line)
				require.Equal(t, i >= 2 && i < 12, strings.HasPrefix(line, started), line)
			}
			require.Equal(t, started+" stdout P last words\n", memory.text("/logs/p/ends.log"))
			require.True(t, memory.closed("/logs/p/ends.log"))
			require.True(t, full.Load())
			require.Equal(t, 5000, strings.Count(memory.text("/logs/p/floods.log"), "0123456789abcde\n"))
		})
	}
}

func (l *memoryLogs) closed(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files[path].closed
}

func TestImagesAfterARestart(t *testing.T) {
	for _, tc := range []struct {
		loss fake.Loss
		want []string
	}{
		{fake.LoseNothing, []string{"old", "new"}},
		{fake.LoseProcesses, []string{"old", "new"}},
		{fake.LoseAll, []string{"old"}},
	} {
		rt := start(t, fake.Config{Images: []fake.Image{{Name: "old"}}})
		_, err := rt.PullImage(t.Context(), &runtimeapi.ImageSpec{Image: "new"}, nil, nil)
		require.NoError(t, err)
		require.NoError(t, rt.Restart(t.Context(), tc.loss))
		images, err := rt.ListImages(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, images, len(tc.want), "%v", tc.loss)
	}
}

func TestStartAndRestartRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{AnyImage: true, Programs: fake.Always(stubborn)})
		require.ErrorContains(t, rt.Start(t.Context(), 7), "Loss(7)")
		require.NoError(t, rt.Start(t.Context(), fake.LoseNothing), "it is up")
		_, id := running(t, rt)
		synctest.Wait()

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, rt.Restart(ctx, fake.LoseNothing), context.Canceled)
		require.Equal(t, "RUNNING 0 ", brief(statusOf(t, rt, id)), "it is up all the same")

		rt.Stop()
		require.NoError(t, rt.Signal(id, syscall.SIGKILL), "a lever works while it is down")
		require.NoError(t, rt.Close())
		require.Equal(t, codes.Unavailable, status.Code(rt.Start(t.Context(), fake.LoseNothing)))
		_, err := rt.Version(t.Context())
		require.Equal(t, codes.Unavailable, status.Code(err))
	})
}
