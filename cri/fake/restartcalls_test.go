package fake_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Calls that would wait forever end when the runtime stops.
func TestCallsUnderWayEndWithTheRuntime(t *testing.T) {
	for _, loss := range []fake.Loss{fake.LoseNothing, fake.LoseProcesses, fake.LoseAll} {
		bubble(t, loss.String(), func(t *testing.T) {
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
			sandboxID := sandbox(t, rt, "p")
			ids := map[string]string{
				"stubborn": add(t, rt, sandboxID, "stubborn", true), "slow": add(t, rt, sandboxID, "slow", false),
			}
			synctest.Wait()
			calls := map[string]func(context.Context) error{
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
			_, err := rt.Version(t.Context())
			require.Equal(t, codes.Unavailable, status.Code(err))
			require.EqualValues(t, 1, commands.Load(), "the command outlives the runtime")

			require.NoError(t, rt.Start(t.Context(), loss))
			require.NoError(t, rt.Start(t.Context(), loss))
			_, err = rt.Version(t.Context())
			require.NoError(t, err)
			if loss == fake.LoseNothing {
				require.Equal(t, "CREATED 0 ", brief(statusOf(t, rt, ids["slow"])), "as if it had not been started")
				require.EqualValues(t, 1, commands.Load())
				return
			}
			require.Zero(t, commands.Load())
		})
	}
}

// A call whose hook ignores the stop of the runtime also fails with Unavailable, and the hook's
// result has no effect.
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
		sandboxID := sandbox(t, rt, "p")
		id := add(t, rt, sandboxID, "c", false)
		results := make(chan error, 3)
		go func() { results <- rt.StartContainer(t.Context(), id) }()
		go func() { results <- <-pulling(t.Context(), rt, "slow") }()
		go func() { results <- rt.RemovePodSandbox(t.Context(), sandboxID) }()
		synctest.Wait()
		require.NoError(t, rt.Restart(t.Context(), fake.LoseNothing))
		for range 3 {
			require.Equal(t, codes.Unavailable, status.Code(<-results))
		}
		require.EqualValues(t, 1, cleaned.Load(), "a program that was found runs to clean up")
		require.Equal(t, "CREATED 0 ", brief(statusOf(t, rt, id)))
		require.False(t, present(t, rt, "slow"))
		require.NoError(t, rt.StartContainer(t.Context(), id), "it can still be started")
	})
}

// Over gRPC, Stop cuts connections, and further ones are refused while the runtime is down.
// ExampleRuntime_Serve shows that the same listener serves again.
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
	})
}
