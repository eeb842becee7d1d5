package fake_test

import (
	"context"
	"runtime"
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

func TestContainerLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		rt := start(t, fake.Config{AnyImage: true, Programs: fake.Always(after(5*time.Second, 3))})
		began := time.Now()
		pod := podConfig("p")
		pod.LogDirectory = "/nowhere"
		sandboxID, err := rt.RunPodSandbox(ctx, pod, "")
		require.NoError(t, err)
		require.Regexp(t, "^[0-9a-f]{64}$", sandboxID)

		time.Sleep(time.Second)
		config := containerConfig("p", "c", "sh", "-c")
		config.Args = []string{"exit 3"}
		config.Mounts = []*runtimeapi.Mount{{ContainerPath: "/data", HostPath: "/srv/data", Readonly: true}}
		config.Annotations = map[string]string{"k": "v"}
		config.Linux = &runtimeapi.LinuxContainerConfig{
			Resources:       &runtimeapi.LinuxContainerResources{CpuShares: 100},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{RunAsUser: &runtimeapi.Int64Value{Value: 7}},
		}
		id, err := rt.CreateContainer(ctx, sandboxID, config, pod)
		require.NoError(t, err)
		config.Labels["io.kubernetes.container.name"] = "changed by the caller"

		s := statusOf(t, rt, id)
		require.Equal(t, runtimeapi.ContainerState_CONTAINER_CREATED, s.State)
		require.Equal(t, began.Add(time.Second).UnixNano(), s.CreatedAt)
		require.Zero(t, s.StartedAt)
		require.Equal(t, "c", s.Labels["io.kubernetes.container.name"])
		require.Equal(t, "v", s.Annotations["k"])
		require.Equal(t, "/srv/data", s.Mounts[0].HostPath)
		require.Equal(t, "docker.io/library/busybox:latest", s.Image.Image)
		require.Contains(t, s.ImageRef, "busybox@sha256:")
		require.Contains(t, s.ImageId, "sha256:")
		require.Empty(t, s.LogPath)
		require.EqualValues(t, 100, s.Resources.Linux.CpuShares)
		require.EqualValues(t, 7, s.User.Linux.Uid)
		require.Equal(t, runtimeapi.Signal_SIGNAL_SIGTERM, s.StopSignal)

		s.Metadata.Name, s.Image.Image = "changed", "by the reader"
		s.Mounts[0].HostPath, s.Resources.Linux.CpuShares, s.User.Linux.Uid = "/", 0, 0
		again := statusOf(t, rt, id)
		require.Equal(t, "c", again.Metadata.Name)
		require.Equal(t, "docker.io/library/busybox:latest", again.Image.Image)
		require.Equal(t, "/srv/data", again.Mounts[0].HostPath)
		require.EqualValues(t, 100, again.Resources.Linux.CpuShares)
		require.EqualValues(t, 7, again.User.Linux.Uid)

		require.NoError(t, rt.StartContainer(ctx, id))
		time.Sleep(4 * time.Second)
		s = statusOf(t, rt, id)
		require.Equal(t, runtimeapi.ContainerState_CONTAINER_RUNNING, s.State)
		require.Equal(t, began.Add(time.Second).UnixNano(), s.StartedAt)
		require.Zero(t, s.FinishedAt)

		time.Sleep(time.Second)
		synctest.Wait()
		s = statusOf(t, rt, id)
		require.Equal(t, runtimeapi.ContainerState_CONTAINER_EXITED, s.State)
		require.Equal(t, began.Add(6*time.Second).UnixNano(), s.FinishedAt)
		require.EqualValues(t, 3, s.ExitCode)
		require.Equal(t, "Error", s.Reason)
		require.Equal(t, codes.FailedPrecondition, status.Code(rt.StartContainer(ctx, id)), "no second start")
		require.NoError(t, rt.StopContainer(ctx, id, time.Minute), "stopping what has exited succeeds")

		require.NoError(t, rt.RemoveContainer(ctx, id))
		require.NoError(t, rt.RemoveContainer(ctx, id))
		require.True(t, cri.IsNotFound(rt.StopContainer(ctx, id, 0)))
		_, err = rt.ContainerStatus(ctx, id, false)
		require.True(t, cri.IsNotFound(err))
	})
}

func TestExitCodes(t *testing.T) {
	cases := []struct {
		name    string
		program fake.Program
		grace   time.Duration
		signal  syscall.Signal // before the stop
		took    time.Duration
		code    int32
		reason  string
	}{
		{name: "zero", program: fake.Exit(0), code: 0, reason: "Completed"},
		{name: "code", program: fake.Exit(42), code: 42, reason: "Error"},
		{name: "only the low byte counts", program: fake.Exit(256), code: 0, reason: "Completed"},
		{name: "negative", program: fake.Exit(-1), code: 255, reason: "Error"},
		{name: "unhandled SIGTERM", program: fake.SleepUntilStopped, grace: 30 * time.Second, code: 143, reason: "Error"},
		{name: "no grace", program: fake.SleepUntilStopped, code: 137, reason: "Error"},
		{name: "ignored SIGTERM", program: stubborn, grace: 30 * time.Second, took: 30 * time.Second, code: 137, reason: "Error"},
		{
			name: "handled SIGTERM", grace: 30 * time.Second, took: 3 * time.Second, code: 7, reason: "Error",
			program: func(_ context.Context, p *fake.Process) int {
				<-p.Signals()
				time.Sleep(3 * time.Second)
				return 7
			},
		},
		{name: "grace is rounded up to seconds", program: stubborn, grace: time.Millisecond, took: time.Second, code: 137, reason: "Error"},
		{name: "a negative grace is none", program: stubborn, grace: -time.Hour, code: 137, reason: "Error"},
		{name: "SIGINT from outside", program: fake.SleepUntilStopped, signal: 2, grace: time.Second, code: 130, reason: "Error"},
		{name: "SIGKILL from outside", program: stubborn, signal: 9, grace: time.Second, code: 137, reason: "Error"},
		{name: "SIGCHLD does nothing", program: fake.SleepUntilStopped, signal: 17, grace: time.Second, code: 143, reason: "Error"},
		{
			name: "panic", code: 2, reason: "Error",
			program: func(context.Context, *fake.Process) int { panic("no") },
		},
		{
			name: "goexit", code: 2, reason: "Error",
			program: func(context.Context, *fake.Process) int { runtime.Goexit(); return 0 },
		},
		{
			name: "out of memory", code: 137, reason: "OOMKilled",
			program: func(_ context.Context, p *fake.Process) int { p.OOMKilled(); return 137 },
		},
		{
			name: "C11 out of memory with exit code 0", code: 0, reason: "OOMKilled",
			program: func(_ context.Context, p *fake.Process) int { p.OOMKilled(); return 0 },
		},
		{
			name: "abandoned after SIGKILL", grace: 2 * time.Second, took: 2*time.Second + 10*time.Second, code: 137, reason: "Error",
			program: func(context.Context, *fake.Process) int { time.Sleep(13 * time.Second); return 0 },
		},
	}
	for _, c := range cases {
		bubble(t, c.name, func(t *testing.T) {
			rt := start(t, fake.Config{AnyImage: true, Programs: fake.Always(c.program)})
			_, id := running(t, rt)
			synctest.Wait()
			if c.signal != 0 {
				require.NoError(t, rt.Signal(id, c.signal))
				synctest.Wait()
			}
			began := time.Now()
			require.NoError(t, rt.StopContainer(t.Context(), id, c.grace))
			require.Equal(t, c.took, time.Since(began))
			s := statusOf(t, rt, id)
			require.Equal(t, runtimeapi.ContainerState_CONTAINER_EXITED, s.State)
			require.Equal(t, c.code, s.ExitCode)
			require.Equal(t, c.reason, s.Reason)
			time.Sleep(time.Minute) // the abandoned one comes back
		})
	}
}

func TestStopSignalOfConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		got := make(chan syscall.Signal, 4)
		rt := start(t, fake.Config{AnyImage: true, Programs: fake.Always(func(ctx context.Context, p *fake.Process) int {
			for {
				select {
				case s := <-p.Signals():
					got <- s
				case <-ctx.Done():
					return 0
				}
			}
		})})
		sandboxID, err := rt.RunPodSandbox(ctx, podConfig("p"), "")
		require.NoError(t, err)
		config := containerConfig("p", "c")
		config.StopSignal = runtimeapi.Signal_SIGNAL_SIGUSR1
		id, err := rt.CreateContainer(ctx, sandboxID, config, podConfig("p"))
		require.NoError(t, err)
		require.NoError(t, rt.StopContainer(ctx, id, time.Second), "a created container is as good as stopped")
		require.Equal(t, runtimeapi.ContainerState_CONTAINER_CREATED, statusOf(t, rt, id).State)
		require.NoError(t, rt.StartContainer(ctx, id))
		synctest.Wait()

		// A stop that is given up leaves the container running, with the signal.
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		err = rt.StopContainer(short, id, time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))
		require.Equal(t, runtimeapi.ContainerState_CONTAINER_RUNNING, statusOf(t, rt, id).State)

		// A second stop does not send it again.
		require.NoError(t, rt.StopContainer(ctx, id, time.Second))
		require.Equal(t, syscall.Signal(10), <-got)
		require.Empty(t, got)
		require.Equal(t, runtimeapi.Signal_SIGNAL_SIGUSR1, statusOf(t, rt, id).StopSignal)
	})
}

// What kill(1) refuses, or does not send, reaches no program.
func TestSignalsThatAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{AnyImage: true, Programs: fake.Always(func(_ context.Context, p *fake.Process) int {
			return int(<-p.Signals())
		})})
		_, id := running(t, rt)
		for _, signal := range []syscall.Signal{-1, 65, 1 << 20} {
			require.Equal(t, codes.InvalidArgument, status.Code(rt.Signal(id, signal)), signal)
		}
		require.NoError(t, rt.Signal(id, 0))
		synctest.Wait()
		require.Equal(t, runtimeapi.ContainerState_CONTAINER_RUNNING, statusOf(t, rt, id).State)
		require.NoError(t, rt.Signal(id, 64))
		synctest.Wait()
		require.Equal(t, codes.FailedPrecondition, status.Code(rt.Signal(id, 0)))
		require.EqualValues(t, 64, statusOf(t, rt, id).ExitCode)
	})
}

func TestAbandonedProgramIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		rt, err := fake.New(fake.Config{
			AnyImage: true, KillTimeout: time.Second,
			Programs: fake.Always(func(context.Context, *fake.Process) int { <-release; return 0 }),
		})
		require.NoError(t, err)
		running(t, rt)
		began := time.Now()
		var abandoned *fake.AbandonedError
		require.ErrorAs(t, rt.Close(), &abandoned)
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, []string{"c_p_default_uid-p_0"}, abandoned.Programs)
		close(release)
		synctest.Wait()
		require.NoError(t, rt.Close(), "it has returned meanwhile")
	})
}

func TestRunClosesTheRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, err := fake.New(fake.Config{AnyImage: true})
		require.NoError(t, err)
		running(t, rt)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, rt.Run(ctx))
		_, err = rt.Version(t.Context())
		require.Equal(t, codes.Unavailable, status.Code(err))
	})
}

func TestStartFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		rt := start(t, fake.Config{AnyImage: true, Programs: fake.ByCommand(map[string]fake.Program{"ok": fake.Exit(0)}, nil)})
		sandboxID, err := rt.RunPodSandbox(ctx, podConfig("p"), "")
		require.NoError(t, err)
		id, err := rt.CreateContainer(ctx, sandboxID, containerConfig("p", "c", "missing", "arg"), podConfig("p"))
		require.NoError(t, err)
		err = rt.StartContainer(ctx, id)
		require.Equal(t, codes.Unknown, status.Code(err))
		require.ErrorIs(t, err, fake.ErrNotFound)
		require.ErrorContains(t, err, `exec: "missing": executable file not found in $PATH`)
		s := statusOf(t, rt, id)
		require.Equal(t, runtimeapi.ContainerState_CONTAINER_EXITED, s.State)
		require.Equal(t, "StartError", s.Reason)
		require.EqualValues(t, 128, s.ExitCode)
		require.Equal(t, err.Error(), s.Message)
		require.Zero(t, s.StartedAt)
		require.NotZero(t, s.FinishedAt)
		require.NoError(t, rt.RemoveContainer(ctx, id))
	})
}

func TestCreateContainerRefuses(t *testing.T) {
	ctx := t.Context()
	rt := start(t, fake.Config{Images: []fake.Image{{Name: "present"}}})
	sandboxID, err := rt.RunPodSandbox(ctx, podConfig("p"), "")
	require.NoError(t, err)
	valid := func() *runtimeapi.ContainerConfig {
		config := containerConfig("p", "c")
		config.Image.Image = "present"
		return config
	}
	cases := []struct {
		name    string
		sandbox string
		change  func(*runtimeapi.ContainerConfig)
		code    codes.Code
	}{
		{"no metadata", sandboxID, func(c *runtimeapi.ContainerConfig) { c.Metadata = nil }, codes.InvalidArgument},
		{"no image", sandboxID, func(c *runtimeapi.ContainerConfig) { c.Image = nil }, codes.InvalidArgument},
		{"absent image", sandboxID, func(c *runtimeapi.ContainerConfig) { c.Image.Image = "absent" }, codes.NotFound},
		{"unknown sandbox", "nope", func(*runtimeapi.ContainerConfig) {}, codes.NotFound},
		{"valid", sandboxID, func(*runtimeapi.ContainerConfig) {}, codes.OK},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			config := valid()
			c.change(config)
			_, err := rt.CreateContainer(ctx, c.sandbox, config, podConfig("p"))
			require.Equal(t, c.code, status.Code(err), "%v", err)
		})
	}
}
