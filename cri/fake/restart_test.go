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

var logs memoryLogsConfig

// memoryLogsConfig makes sandboxes that log below /logs.
type memoryLogsConfig struct{}

func (memoryLogsConfig) pod(name string) *runtimeapi.PodSandboxConfig {
	config := podConfig(name)
	config.LogDirectory = "/logs/" + name
	return config
}

// add creates a container, and starts it unless it is to stay as it is.
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

// What containers look like after each kind of loss is what containerd shows
// whose process, or whose shims, were killed.
func TestWhatARestartFinds(t *testing.T) {
	for _, tc := range []struct {
		name    string
		opts    fake.StartOptions
		want    map[string]string
		sandbox runtimeapi.PodSandboxState
	}{
		{"nothing is lost", fake.StartOptions{}, map[string]string{
			"runs": "RUNNING 0 ", "created": "CREATED 0 ", "exited": "EXITED 3 Error", "ends": "EXITED 7 Error",
		}, runtimeapi.PodSandboxState_SANDBOX_READY},
		{"the exits are lost", fake.StartOptions{LoseExits: true}, map[string]string{
			"runs": "RUNNING 0 ", "created": "CREATED 0 ", "exited": "EXITED 3 Error", "ends": "EXITED 255 Unknown",
		}, runtimeapi.PodSandboxState_SANDBOX_READY},
		{"the processes are lost", fake.StartOptions{Loss: fake.LoseProcesses}, map[string]string{
			"runs": "EXITED 255 Unknown", "created": "CREATED 0 ", "exited": "EXITED 3 Error", "ends": "EXITED 255 Unknown",
		}, runtimeapi.PodSandboxState_SANDBOX_NOTREADY},
		{"everything is lost", fake.StartOptions{Loss: fake.LoseAll}, nil, 0},
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
			sandboxID, err := rt.RunPodSandbox(t.Context(), podConfig("p"), "")
			require.NoError(t, err)
			before, err := rt.PodSandboxStatus(t.Context(), sandboxID, false)
			require.NoError(t, err)
			ids := map[string]string{}
			for _, name := range []string{"runs", "created", "exited", "ends"} {
				ids[name] = add(t, rt, sandboxID, name, name != "created")
			}
			synctest.Wait()
			began := time.Now()
			require.NoError(t, rt.Restart(t.Context(), fake.RestartOptions{Down: time.Minute, StartOptions: tc.opts}))
			require.Equal(t, time.Minute, time.Since(began))

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
			if tc.opts == (fake.StartOptions{}) {
				require.Equal(t, 10*time.Second, ended.Sub(began), "its own time")
			} else {
				require.Equal(t, time.Minute, ended.Sub(began), "the time of the start")
			}
			response, err := rt.PodSandboxStatus(t.Context(), sandboxID, false)
			require.NoError(t, err)
			require.Equal(t, tc.sandbox, response.Status.State)
			require.Equal(t, before.Status.Network.Ip, response.Status.Network.Ip, "known until the sandbox is stopped")
			err = rt.StartContainer(t.Context(), ids["created"])
			if tc.opts.Loss == fake.LoseNothing {
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

// The address that a sandbox names after a reboot is nobody else's until it is
// stopped.
func TestAddressesAfterAReboot(t *testing.T) {
	rt := start(t, fake.Config{})
	first, err := rt.RunPodSandbox(t.Context(), podConfig("p"), "")
	require.NoError(t, err)
	require.NoError(t, rt.Restart(t.Context(), fake.RestartOptions{StartOptions: fake.StartOptions{Loss: fake.LoseProcesses}}))
	require.NoError(t, rt.StopPodSandbox(t.Context(), first))
	require.NoError(t, rt.StopPodSandbox(t.Context(), first))
	require.NoError(t, rt.Restart(t.Context(), fake.RestartOptions{StartOptions: fake.StartOptions{Loss: fake.LoseAll}}))
	_, err = rt.RunPodSandbox(t.Context(), podConfig("p"), "")
	require.NoError(t, err)
}

// waiting are calls that wait for something, each of them with everything that
// it waits for going on without end.
func waiting(rt *fake.Runtime, sandboxID string, ids map[string]string) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"StopContainer": func(ctx context.Context) error { return rt.StopContainer(ctx, ids["stubborn"], time.Hour) },
		"ExecSync": func(ctx context.Context) error {
			_, _, err := rt.ExecSync(ctx, ids["stubborn"], []string{"sleep"}, time.Hour)
			return err
		},
		"PullImage": func(ctx context.Context) error {
			_, err := rt.PullImage(ctx, &runtimeapi.ImageSpec{Image: "slow"}, nil, nil)
			return err
		},
		"GetContainerEvents": func(ctx context.Context) error {
			return rt.GetContainerEvents(ctx, func(*runtimeapi.ContainerEventResponse) {})
		},
		"StartContainer": func(ctx context.Context) error { return rt.StartContainer(ctx, ids["slow"]) },
		"Intercept":      func(ctx context.Context) error { _, err := rt.ListContainers(ctx, nil); return err },
	}
}

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestCallsUnderWayEndWithTheRuntime(t *testing.T) {
	for _, opts := range []fake.StartOptions{{}, {Loss: fake.LoseProcesses}, {Loss: fake.LoseAll}} {
		bubble(t, opts.Loss.String(), func(t *testing.T) {
			var commands atomic.Int32
			rt := start(t, fake.Config{
				Programs: func(ctx context.Context, p *fake.Process) (fake.Program, error) {
					if p.Container.Name == "slow" {
						return nil, untilDone(ctx)
					}
					return stubborn, nil
				},
				Exec: fake.Always(func(ctx context.Context, _ *fake.Process) int {
					commands.Add(1)
					<-ctx.Done()
					commands.Add(-1)
					return 0
				}),
				Pull: func(ctx context.Context, _ *runtimeapi.ImageSpec, _ *runtimeapi.AuthConfig) (fake.Image, error) {
					return fake.Image{}, untilDone(ctx)
				},
				AnyImage: true,
				Intercept: func(ctx context.Context, call string, _ any) error {
					if call == "ListContainers" {
						return untilDone(ctx)
					}
					return nil
				},
			})
			sandboxID, err := rt.RunPodSandbox(t.Context(), podConfig("p"), "")
			require.NoError(t, err)
			ids := map[string]string{
				"stubborn": add(t, rt, sandboxID, "stubborn", true), "slow": add(t, rt, sandboxID, "slow", false),
			}
			synctest.Wait()
			calls := waiting(rt, sandboxID, ids)
			results := make(chan error, len(calls))
			for name, call := range calls {
				go func() {
					err := call(t.Context())
					if status.Code(err) != codes.Unavailable {
						err = fmt.Errorf("%s: %w", name, err)
					}
					results <- err
				}()
			}
			synctest.Wait()
			require.Empty(t, results, "all wait")
			rt.Stop()
			rt.Stop()
			synctest.Wait()
			require.Len(t, results, len(calls))
			for range calls {
				require.Equal(t, codes.Unavailable, status.Code(<-results))
			}
			_, err = rt.Version(t.Context())
			require.Equal(t, codes.Unavailable, status.Code(err))
			require.EqualValues(t, 1, commands.Load(), "the command outlives the runtime")

			require.NoError(t, rt.Start(t.Context(), opts))
			require.NoError(t, rt.Start(t.Context(), opts))
			_, err = rt.Version(t.Context())
			require.NoError(t, err)
			if opts.Loss == fake.LoseNothing {
				require.Equal(t, "CREATED 0 ", brief(statusOf(t, rt, ids["slow"])), "as if it had not been started")
				require.EqualValues(t, 1, commands.Load())
				return
			}
			require.Zero(t, commands.Load())
		})
	}
}

// A call whose hook does not care that the runtime went away gets the same
// answer, and its hook's result has no effect.
func TestHooksThatReturnAfterTheRuntimeWentAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pause := func() { time.Sleep(time.Minute) }
		var cleaned atomic.Int32
		rt := start(t, fake.Config{
			Programs: func(context.Context, *fake.Process) (fake.Program, error) {
				pause()
				return func(ctx context.Context, _ *fake.Process) int { <-ctx.Done(); cleaned.Add(1); return 0 }, nil
			},
			Pull: func(context.Context, *runtimeapi.ImageSpec, *runtimeapi.AuthConfig) (fake.Image, error) {
				pause()
				return fake.Image{}, nil
			},
			Images: []fake.Image{{Name: "busybox"}},
			Intercept: func(_ context.Context, call string, _ any) error {
				if call == "RemovePodSandbox" {
					pause()
				}
				return nil
			},
		})
		sandboxID, err := rt.RunPodSandbox(t.Context(), podConfig("p"), "")
		require.NoError(t, err)
		id := add(t, rt, sandboxID, "c", false)
		results := make(chan error, 3)
		go func() { results <- rt.StartContainer(t.Context(), id) }()
		go func() {
			_, err := rt.PullImage(t.Context(), &runtimeapi.ImageSpec{Image: "slow"}, nil, nil)
			results <- err
		}()
		go func() { results <- rt.RemovePodSandbox(t.Context(), sandboxID) }()
		synctest.Wait()
		require.NoError(t, rt.Restart(t.Context(), fake.RestartOptions{}))
		for range 3 {
			require.Equal(t, codes.Unavailable, status.Code(<-results))
		}
		require.EqualValues(t, 1, cleaned.Load(), "a program that was found runs to clean up")
		require.Equal(t, "CREATED 0 ", brief(statusOf(t, rt, id)))
		image, err := rt.ImageStatus(t.Context(), &runtimeapi.ImageSpec{Image: "slow"}, false)
		require.NoError(t, err)
		require.Nil(t, image.Image)
		require.NoError(t, rt.StartContainer(t.Context(), id), "it can still be started")
	})
}

// The stop signal is not remembered over a restart: the next stop sends it anew.
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
			require.NoError(t, rt.Restart(t.Context(), fake.RestartOptions{}))
		}
	})
}

// Logs written while nobody reads them come later and with the later time, and
// a program that fills the pipe waits.
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
			sandboxID, err := rt.RunPodSandbox(t.Context(), logs.pod("p"), "")
			require.NoError(t, err)
			for _, name := range []string{"talks", "ends", "floods"} {
				add(t, rt, sandboxID, name, true)
			}
			time.Sleep(1500 * time.Millisecond)
			rt.Stop()
			time.Sleep(10 * time.Second)
			require.False(t, full.Load(), "the pipe is full")
			require.Empty(t, memory.text("/logs/p/ends.log"))
			require.NoError(t, rt.Start(t.Context(), fake.StartOptions{Loss: loss}))
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
		opts fake.StartOptions
		want []string
	}{
		{fake.StartOptions{}, []string{"old", "new"}},
		{fake.StartOptions{Loss: fake.LoseProcesses}, []string{"old", "new"}},
		{fake.StartOptions{Loss: fake.LoseAll, KeepImages: true}, []string{"old", "new"}},
		{fake.StartOptions{Loss: fake.LoseAll}, []string{"old"}},
	} {
		rt := start(t, fake.Config{Images: []fake.Image{{Name: "old"}}})
		_, err := rt.PullImage(t.Context(), &runtimeapi.ImageSpec{Image: "new"}, nil, nil)
		require.NoError(t, err)
		require.NoError(t, rt.Restart(t.Context(), fake.RestartOptions{StartOptions: tc.opts}))
		images, err := rt.ListImages(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, images, len(tc.want), "%+v", tc.opts)
	}
}

// Over gRPC a connection is really cut, none is let in while the runtime is
// down, and the same listener serves again.
func TestConnectionsAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{AnyImage: true, Programs: fake.Always(stubborn)})
		_, id := running(t, rt)
		synctest.Wait()
		conn := dial(t, rt)
		client := runtimeapi.NewRuntimeServiceClient(conn)
		_, err := client.Version(t.Context(), &runtimeapi.VersionRequest{})
		require.NoError(t, err)

		results := make(chan error, 2)
		go func() {
			_, err := client.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 3600})
			results <- err
		}()
		events, err := client.GetContainerEvents(t.Context(), &runtimeapi.GetEventsRequest{})
		require.NoError(t, err)
		go func() {
			_, err := events.Recv()
			results <- err
		}()
		synctest.Wait()
		rt.Stop()
		for range 2 {
			require.Equal(t, codes.Unavailable, status.Code(<-results))
		}
		synctest.Wait()
		require.NotEqual(t, "READY", conn.GetState().String())
		_, err = client.Version(t.Context(), &runtimeapi.VersionRequest{})
		require.Equal(t, codes.Unavailable, status.Code(err))
		time.Sleep(time.Minute)
		require.NotEqual(t, "READY", conn.GetState().String(), "it has tried")

		require.NoError(t, rt.Start(t.Context(), fake.StartOptions{}))
		conn.ResetConnectBackoff()
		require.Eventually(t, func() bool {
			_, err = client.Version(t.Context(), &runtimeapi.VersionRequest{})
			return err == nil
		}, 10*time.Minute, time.Second)
		answer, err := client.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
		require.NoError(t, err)
		require.Equal(t, runtimeapi.ContainerState_CONTAINER_RUNNING, answer.Status.State)
	})
}

func TestStartAndRestartRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{AnyImage: true, Programs: fake.Always(stubborn)})
		require.ErrorContains(t, rt.Start(t.Context(), fake.StartOptions{Loss: 7}), "Loss(7)")
		require.NoError(t, rt.Start(t.Context(), fake.StartOptions{}), "it is up")
		_, id := running(t, rt)
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, rt.Restart(ctx, fake.RestartOptions{Down: time.Hour}), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, "RUNNING 0 ", brief(statusOf(t, rt, id)), "it is up all the same")

		rt.Stop()
		require.NoError(t, rt.Signal(id, syscall.SIGKILL), "a lever works while it is down")
		require.NoError(t, rt.Close())
		require.Equal(t, codes.Unavailable, status.Code(rt.Start(t.Context(), fake.StartOptions{})))
	})
}

// CrashSandbox is no call: it works while the runtime is down.
func TestASandboxCrashesWhileTheRuntimeIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{AnyImage: true, Programs: fake.Always(stubborn)})
		sandboxID, id := running(t, rt)
		rt.Stop()
		require.NoError(t, rt.CrashSandbox(t.Context(), sandboxID))
		require.NoError(t, rt.Start(t.Context(), fake.StartOptions{}))
		require.Equal(t, "EXITED 137 Error", brief(statusOf(t, rt, id)))
	})
}
