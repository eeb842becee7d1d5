package critest

import (
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func containerCases() []testCase {
	return []testCase{
		{"a container is created, runs, exits and is removed", func(e *env) {
			pod, sandbox := e.runHost()
			unstarted := e.create(sandbox, e.container("unstarted", sleeper.command()...), pod)
			require.NotEmpty(e.t, unstarted)
			require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_CREATED, e.status(unstarted).GetState())
			require.NoError(e.t, e.Runtime.RemoveContainer(e.ctx, unstarted))
			id := e.startReady(sandbox, e.container("c", sleeper.command()...), pod)
			require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_RUNNING, e.status(id).GetState())
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, time.Minute))
			s := e.status(id)
			require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_EXITED, s.GetState())
			require.Zero(e.t, s.GetExitCode())
			require.Equal(e.t, "Completed", s.GetReason())
			require.NoError(e.t, e.Runtime.RemoveContainer(e.ctx, id))
			e.noContainer(id)
			require.Empty(e.t, e.containers(sandbox))
		}},
		{"the status repeats the config in every state", func(e *env) {
			pod := e.hostPod()
			config := e.container("named", sleeper.command()...)
			config.Metadata.Attempt = 4
			config.Annotations = map[string]string{"critest/note": "a \"note\"\n", "empty": ""}
			config.Mounts = []*runtimeapi.Mount{{HostPath: e.t.TempDir(), ContainerPath: "/data", Readonly: true}}
			id := e.create(e.run(pod), config, pod)
			check := func(state runtimeapi.ContainerState) {
				s := e.status(id)
				require.Equal(e.t, state, s.GetState())
				require.Equal(e.t, id, s.GetId())
				e.same(config.Metadata, s.GetMetadata())
				require.Equal(e.t, config.Labels, s.GetLabels())
				require.Equal(e.t, config.Annotations, s.GetAnnotations())
				require.Equal(e.t, filepath.Join(pod.LogDirectory, config.LogPath), s.GetLogPath())
				require.Len(e.t, s.GetMounts(), 1)
				require.Equal(e.t, "/data", s.GetMounts()[0].GetContainerPath())
				require.Equal(e.t, config.Mounts[0].HostPath, s.GetMounts()[0].GetHostPath())
				require.True(e.t, s.GetMounts()[0].GetReadonly())
			}
			check(runtimeapi.ContainerState_CONTAINER_CREATED)
			require.NoError(e.t, e.Runtime.StartContainer(e.ctx, id))
			check(runtimeapi.ContainerState_CONTAINER_RUNNING)
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, time.Minute))
			check(runtimeapi.ContainerState_CONTAINER_EXITED)
		}},
		{"a created container has no time of start and no end", func(e *env) {
			s := e.status(e.alone(e.create, sleeper))
			require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_CREATED, s.GetState())
			require.Zero(e.t, s.GetStartedAt())
			noEnd(e, s)
		}},
		{"a running container has a time of start and no end", func(e *env) {
			s := e.status(e.alone(e.start, sleeper))
			require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_RUNNING, s.GetState())
			require.NotZero(e.t, s.GetStartedAt())
			noEnd(e, s)
		}},
		{"times are in order", func(e *env) {
			before := time.Now()
			pod, sandbox := e.runHost()
			s := e.exited(e.start(sandbox, e.container("c", exit0.command()...), pod))
			e.recent(before, s.GetCreatedAt())
			e.recent(before, s.GetStartedAt())
			e.recent(before, s.GetFinishedAt())
			require.LessOrEqual(e.t, s.GetCreatedAt(), s.GetStartedAt())
			// A runtime may record the end of a short program before its start.
			require.LessOrEqual(e.t, s.GetCreatedAt(), s.GetFinishedAt())
			long := e.start(sandbox, e.container("long", sleepProgram.command()...), pod)
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, long, time.Minute))
			s = e.status(long)
			require.LessOrEqual(e.t, s.GetStartedAt(), s.GetFinishedAt())
		}},
		{"the status of an exited container stays", func(e *env) {
			pod, sandbox := e.runHost()
			id := e.start(sandbox, e.container("c", exit3.command()...), pod)
			first := e.exited(id)
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, 0))
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, sandbox))
			e.same(first, e.status(id))
		}},
		{"only a verbose status has details", func(e *env) {
			id := e.alone(e.create, sleeper)
			plain, err := e.Runtime.ContainerStatus(e.ctx, id, false)
			require.NoError(e.t, err)
			require.Empty(e.t, plain.GetInfo())
			verbose, err := e.Runtime.ContainerStatus(e.ctx, id, true)
			require.NoError(e.t, err)
			require.NotEmpty(e.t, verbose.GetInfo())
			e.same(plain.GetStatus(), verbose.GetStatus())
		}},
		{"exit code 0 is Completed", exitsWith(exit0, 0, "Completed")},
		{"another exit code is an Error", exitsWith(exit3, 3, "Error")},
		{"the highest exit code arrives", exitsWith(exit255, 255, "Error")},
		{"the default action of the stop signal ends a container", func(e *env) {
			id := e.alone(e.start, sleepProgram)
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, time.Minute))
			s := e.status(id)
			require.Equal(e.t, int32(143), s.GetExitCode())
			require.Equal(e.t, "Error", s.GetReason())
		}},
		{"the code after a signal is 128 and its number", func(e *env) {
			id := e.alone(e.start, stubborn)
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, 0))
			s := e.status(id)
			require.Equal(e.t, int32(137), s.GetExitCode())
			require.Equal(e.t, "Error", s.GetReason())
		}},
		{"a container that exceeds its memory is OOMKilled", func(e *env) {
			pod := e.hostPod()
			config := e.container("c", greedy.command()...)
			config.Linux.Resources = &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 16 << 20, MemorySwapLimitInBytes: 16 << 20}
			s := e.exited(e.start(e.run(pod), config, pod))
			require.Equal(e.t, "OOMKilled", s.GetReason())
			require.Equal(e.t, int32(137), s.GetExitCode())
		}},
		{"a missing executable is a StartError", func(e *env) {
			pod := e.hostPod()
			id := e.create(e.run(pod), e.container("c", "/critest/no-such-executable"), pod)
			e.refused(e.Runtime.StartContainer(e.ctx, id))
			s := e.status(id)
			require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_EXITED, s.GetState())
			require.Equal(e.t, int32(128), s.GetExitCode())
			require.Equal(e.t, "StartError", s.GetReason())
			require.NotEmpty(e.t, s.GetMessage())
			require.NotZero(e.t, s.GetFinishedAt())
			e.refused(e.Runtime.StartContainer(e.ctx, id))
			e.same(s, e.status(id))
		}},
		{"environment, arguments and folder reach the program", func(e *env) {
			config := e.container("c", envPrinter.command()...)
			config.Args = []string{"name", "one", "two words", ""}
			config.Envs = []*runtimeapi.KeyValue{
				{Key: "GREETING", Value: []byte("hello")}, {Key: "SPACED", Value: []byte("a b  c")}, {Key: "EMPTY"},
			}
			config.WorkingDir = "/data"
			printed := e.printedEnv(e.hostPod(), config)
			require.Equal(e.t, "hello", printed["greeting"])
			require.Equal(e.t, "a b  c", printed["spaced"])
			require.Equal(e.t, "set", printed["empty"])
			require.Equal(e.t, "/data", printed["dir"])
			require.Equal(e.t, "[one][two words][]", printed["args"])
		}},
		{"a mounted folder is the host's", func(e *env) {
			pod := e.hostPod()
			config := e.container("c", touch.command()...)
			dir := e.mount(config)
			require.Zero(e.t, e.exited(e.start(e.run(pod), config, pod)).GetExitCode())
			text, err := os.ReadFile(filepath.Join(dir, "touched"))
			require.NoError(e.t, err)
			require.Equal(e.t, "touched\n", string(text))
		}},
		{"a read-only mount cannot be written", func(e *env) {
			pod := e.hostPod()
			config := e.container("c", touch.command()...)
			dir := e.mount(config)
			config.Mounts[0].Readonly = true
			require.Equal(e.t, int32(9), e.exited(e.start(e.run(pod), config, pod)).GetExitCode())
			require.NoFileExists(e.t, filepath.Join(dir, "touched"))
		}},
		{"log paths are absolute, and empty without a log", func(e *env) {
			pod, sandbox := e.runHost()
			logs := e.status(e.create(sandbox, e.container("logs", sleeper.command()...), pod)).GetLogPath()
			require.True(e.t, filepath.IsAbs(logs), "%q", logs)
			silent := e.container("silent", sleeper.command()...)
			silent.LogPath = ""
			require.Empty(e.t, e.status(e.start(sandbox, silent, pod)).GetLogPath())
		}},
		{"the status has a name of the image and a reference", func(e *env) {
			pod, sandbox := e.runHost()
			first := e.status(e.create(sandbox, e.container("a", sleeper.command()...), pod))
			second := e.status(e.create(sandbox, e.container("b", sleeper.command()...), pod))
			// The name may be another name of the image, such as its full form.
			require.Equal(e.t, e.imageID(e.Image), e.imageID(first.GetImage().GetImage()))
			require.NotEmpty(e.t, first.GetImageRef())
			require.Equal(e.t, first.GetImageRef(), second.GetImageRef())
			require.Equal(e.t, first.GetImageId(), second.GetImageId())
		}},
		{"containers of one sandbox do not share an end", func(e *env) {
			pod, sandbox := e.runHost()
			stays := e.start(sandbox, e.container("stays", sleeper.command()...), pod)
			ends := e.start(sandbox, e.container("ends", sleeper.command()...), pod)
			require.NoError(e.t, e.Runtime.RemoveContainer(e.ctx, ends))
			require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_RUNNING, e.status(stays).GetState())
			require.Equal(e.t, runtimeapi.PodSandboxState_SANDBOX_READY, e.sandbox(sandbox).GetState())
		}},
		{"the user and the stop signal appear if the runtime reports them", func(e *env) {
			pod := e.hostPod()
			config := e.container("c", sleeper.command()...)
			config.Linux.SecurityContext = &runtimeapi.LinuxContainerSecurityContext{
				RunAsUser: &runtimeapi.Int64Value{Value: 1000}, RunAsGroup: &runtimeapi.Int64Value{Value: 1001}, SupplementalGroups: []int64{7},
			}
			s := e.status(e.start(e.run(pod), config, pod))
			if signal := s.GetStopSignal(); signal != runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
				require.Equal(e.t, runtimeapi.Signal_SIGNAL_SIGTERM, signal, "the image names none")
			}
			user := s.GetUser().GetLinux()
			if user == nil {
				e.lacks("ContainerStatus.User")
			}
			require.Equal(e.t, int64(1000), user.GetUid())
			require.Equal(e.t, int64(1001), user.GetGid())
			require.Contains(e.t, user.GetSupplementalGroups(), int64(7))
		}},
	}
}

// noEnd requires the fields of a finished container to be unset.
func noEnd(e *env, s *runtimeapi.ContainerStatus) {
	e.t.Helper()
	require.Zero(e.t, s.GetFinishedAt())
	require.Zero(e.t, s.GetExitCode())
	require.Empty(e.t, s.GetReason())
	require.Empty(e.t, s.GetMessage())
}

// exitsWith returns the case of a program that ends by itself.
func exitsWith(p program, code int32, reason string) func(e *env) {
	return func(e *env) {
		s := e.exited(e.alone(e.start, p))
		require.Equal(e.t, code, s.GetExitCode())
		require.Equal(e.t, reason, s.GetReason())
	}
}

// imageID returns the ID of an image that must be present.
func (e *env) imageID(name string) string {
	e.t.Helper()
	response, err := e.Images.ImageStatus(e.ctx, &runtimeapi.ImageSpec{Image: name}, false)
	require.NoError(e.t, err)
	require.NotEmpty(e.t, response.GetImage().GetId(), "%q is present", name)
	return response.GetImage().GetId()
}
