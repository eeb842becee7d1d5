package fake_test

import (
	"context"
	"fmt"
	"io"
	"sync"
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

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
func (f writerFunc) Close() error                { return nil }

// lingering takes three seconds to clean up after a kill.
func lingering(ctx context.Context, _ *fake.Process) int {
	<-ctx.Done()
	time.Sleep(3 * time.Second)
	return 0
}

// A log's writer may call the runtime, also while it receives delayed output.
func TestLogsThatCallTheRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rt *fake.Runtime
		var calls atomic.Int32
		rt = start(t, fake.Config{
			AnyImage: true,
			OpenLog: func(string) (io.WriteCloser, error) {
				return writerFunc(func(p []byte) (int, error) {
					_, err := rt.ListContainers(context.Background(), nil)
					if err == nil {
						calls.Add(1)
					}
					return len(p), nil
				}), nil
			},
			Programs: fake.Always(func(ctx context.Context, p *fake.Process) int {
				for ctx.Err() == nil {
					fmt.Fprintln(p.Stdout, "x")
					time.Sleep(time.Second)
				}
				return 0
			}),
		})
		withLog(t, rt)
		time.Sleep(1500 * time.Millisecond)
		require.EqualValues(t, 2, calls.Load())
		rt.Stop()
		time.Sleep(3 * time.Second)
		require.NoError(t, rt.Start(t.Context(), fake.LoseNothing))
		require.EqualValues(t, 5, calls.Load())
	})
}

// The context of a restart may belong to a call that the restart itself cuts.
func TestRestartComesUpWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{AnyImage: true, Programs: fake.Always(lingering)})
		running(t, rt)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, rt.Restart(ctx, fake.LoseAll), context.DeadlineExceeded)
		require.Equal(t, 3*time.Second, time.Since(began))
		containers, err := rt.ListContainers(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, containers)
	})
}

func TestNoEventAfterTheRuntimeWentAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{})
		var handled atomic.Int32
		ended := make(chan error, 1)
		go func() {
			ended <- rt.GetContainerEvents(t.Context(), func(*runtimeapi.ContainerEventResponse) {
				handled.Add(1)
				time.Sleep(time.Second)
			})
		}()
		synctest.Wait()
		for i := range 10 {
			_, err := rt.RunPodSandbox(t.Context(), podConfig(fmt.Sprint("p", i)), "")
			require.NoError(t, err)
		}
		time.Sleep(3500 * time.Millisecond)
		rt.Stop()
		before := handled.Load()
		require.Error(t, <-ended)
		require.Equal(t, before, handled.Load())
	})
}

// Close also waits for a command that outlives its container, and for the removed container.
func TestCloseWaitsForCommandsOfContainersThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var commands atomic.Int32
		rt := start(t, fake.Config{AnyImage: true, Exec: fake.Always(func(ctx context.Context, p *fake.Process) int {
			commands.Add(1)
			defer commands.Add(-1)
			return lingering(ctx, p)
		})})
		_, id := running(t, rt)
		go func() { _, _, _ = rt.ExecSync(t.Context(), id, []string{"x"}, 0) }()
		synctest.Wait()
		require.NoError(t, rt.RemoveContainer(t.Context(), id))
		require.EqualValues(t, 1, commands.Load())
		require.NoError(t, rt.Close())
		require.Zero(t, commands.Load())
	})
}

// A Resolver or a program may close or restart its runtime, whose wait for it is bounded.
func TestTheRuntimeIsEndedFromWithin(t *testing.T) {
	var rt *fake.Runtime
	for name, end := range map[string]func() error{
		"close":   func() error { return rt.Close() },
		"restart": func() error { return rt.Restart(context.Background(), fake.LoseAll) },
	} {
		requireEnd := func(t *testing.T, err error) {
			if name == "close" {
				require.ErrorContains(t, err, "c_p_default_uid-p_0")
			} else {
				require.NoError(t, err)
			}
		}
		bubble(t, name+" in a Resolver", func(t *testing.T) {
			ended := make(chan error, 1)
			rt = start(t, fake.Config{AnyImage: true, Programs: func(ctx context.Context, _ *fake.Process) (fake.Program, error) {
				ended <- end()
				if ctx.Err() == nil {
					t.Error("the context of a hook that looks late has not ended")
				}
				return fake.SleepUntilStopped, nil
			}})
			sandboxID := sandbox(t, rt, "p")
			began := time.Now()
			id, err := rt.CreateContainer(t.Context(), sandboxID, containerConfig("p", "c"), podConfig("p"))
			require.NoError(t, err)
			require.Equal(t, codes.Unavailable, status.Code(rt.StartContainer(t.Context(), id)))
			require.LessOrEqual(t, time.Since(began), 20*time.Second)
			requireEnd(t, <-ended)
		})
		bubble(t, name+" in a program", func(t *testing.T) {
			ended := make(chan error, 1)
			rt = start(t, fake.Config{AnyImage: true, Programs: fake.Always(func(context.Context, *fake.Process) int {
				time.Sleep(time.Second)
				ended <- end()
				return 0
			})})
			running(t, rt)
			requireEnd(t, <-ended)
			synctest.Wait()
		})
	}
}

// Streams that a Resolver already uses end when the Resolver fails.
func TestInputEndsWhenTheResolverFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		copied := make(chan struct{}, 2)
		resolver := func(_ context.Context, p *fake.Process) (fake.Program, error) {
			if p.Container.Name == "c" && !p.Exec {
				return fake.SleepUntilStopped, nil
			}
			go func() {
				_, _ = io.Copy(io.Discard, p.Stdin)
				copied <- struct{}{}
			}()
			return nil, fake.ErrNotFound
		}
		rt := start(t, fake.Config{AnyImage: true, Programs: resolver, Exec: resolver})
		sandboxID, id := running(t, rt)
		config := containerConfig("p", "other")
		config.Stdin = true
		other, err := rt.CreateContainer(t.Context(), sandboxID, config, podConfig("p"))
		require.NoError(t, err)
		require.Error(t, rt.StartContainer(t.Context(), other))
		<-copied
		input, client := io.Pipe()
		_, err = rt.ExecSession(t.Context(), id, []string{"x"}, fake.Session{Stdin: input})
		require.Error(t, err)
		<-copied
		require.NoError(t, client.Close())
	})
}

// A log that hangs or panics affects its container no more than a program could.
func TestLogsThatFail(t *testing.T) {
	logs := func(write func([]byte) (int, error)) func(string) (io.WriteCloser, error) {
		return func(string) (io.WriteCloser, error) { return writerFunc(write), nil }
	}
	talk := fake.Always(func(ctx context.Context, p *fake.Process) int {
		fmt.Fprintln(p.Stdout, "x")
		fmt.Fprint(p.Stdout, "and the rest")
		return 3
	})
	bubble(t, "panic", func(t *testing.T) {
		rt := start(t, fake.Config{AnyImage: true, Programs: talk, OpenLog: logs(func([]byte) (int, error) { panic("no") })})
		id := withLog(t, rt)
		synctest.Wait()
		require.Equal(t, "EXITED 3 Error", brief(statusOf(t, rt, id)))
	})
	bubble(t, "hang", func(t *testing.T) {
		letGo := make(chan struct{})
		rt := start(t, fake.Config{AnyImage: true, Programs: talk, OpenLog: logs(func([]byte) (int, error) { <-letGo; return 0, nil })})
		id := withLog(t, rt)
		require.NoError(t, rt.StopContainer(t.Context(), id, 0))
		require.Equal(t, "EXITED 137 Error", brief(statusOf(t, rt, id)))
		require.ErrorContains(t, rt.Close(), "c_p_default_uid-p_0")
		close(letGo)
		synctest.Wait()
	})
	bubble(t, "hang at the end", func(t *testing.T) {
		letGo := make(chan struct{})
		rt := start(t, fake.Config{
			AnyImage: true, OpenLog: logs(func([]byte) (int, error) { <-letGo; return 0, nil }),
			Programs: fake.Always(func(_ context.Context, p *fake.Process) int { fmt.Fprint(p.Stdout, "no line"); return 3 }),
		})
		id := withLog(t, rt)
		synctest.Wait() // the program has returned
		require.NoError(t, rt.StopContainer(t.Context(), id, time.Minute))
		require.Equal(t, "EXITED 3 Error", brief(statusOf(t, rt, id)))
		require.NoError(t, rt.Close())
		close(letGo)
		synctest.Wait()
	})
}

// A session with input only ends with the container, its context or the runtime, without the
// client's Read.
func TestAttachWithInputOnlyEnds(t *testing.T) {
	for name, end := range map[string]func(rt *fake.Runtime, id string, cancel func()){
		"exit":    func(rt *fake.Runtime, id string, _ func()) { _ = rt.Signal(id, 9) },
		"context": func(_ *fake.Runtime, _ string, cancel func()) { cancel() },
		"down":    func(rt *fake.Runtime, _ string, _ func()) { rt.Stop() },
	} {
		bubble(t, name, func(t *testing.T) {
			rt := start(t, fake.Config{AnyImage: true})
			id := withInput(t, rt)
			input, _ := io.Pipe()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- rt.AttachSession(ctx, id, fake.Session{Stdin: input}) }()
			synctest.Wait()
			end(rt, id, cancel)
			synctest.Wait()
			require.Len(t, ended, 1)
			require.Equal(t, name == "exit", <-ended == nil)
		})
	}
}

// Concurrent restarts work: a restart without loss starts the runtime that another restart stopped.
func TestRestartsThatMeet(t *testing.T) {
	rt := start(t, fake.Config{AnyImage: true, Programs: func(context.Context, *fake.Process) (fake.Program, error) {
		time.Sleep(time.Millisecond)
		return fake.SleepUntilStopped, nil
	}})
	rounds := 300
	if testing.Short() {
		rounds = 30
	}
	var all sync.WaitGroup
	for i, loss := range []fake.Loss{fake.LoseAll, fake.LoseProcesses, fake.LoseNothing} {
		all.Go(func() {
			for n := range 4 * rounds {
				name := fmt.Sprint("p", i, "-", n)
				sandboxID, _ := rt.RunPodSandbox(t.Context(), podConfig(name), "")
				id, _ := rt.CreateContainer(t.Context(), sandboxID, containerConfig(name, "c"), podConfig(name))
				_ = rt.StartContainer(t.Context(), id)
			}
		})
		all.Go(func() {
			for range rounds {
				_ = rt.Restart(t.Context(), loss)
			}
		})
	}
	all.Wait()
}
