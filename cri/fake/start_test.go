package fake_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/cri/fake"
)

const cannotStart = "failed to create containerd task: failed to create shim task: OCI runtime create failed: " +
	"runc create failed: unable to start container process: "

// If a container cannot be started, error and status have the same text, and it has no start time.
func TestStartFailures(t *testing.T) {
	fails := func(err error) fake.Resolver {
		return func(context.Context, *fake.Process) (fake.Program, error) { return nil, err }
	}
	noFile := func(string) (io.WriteCloser, error) { return nil, errors.New("disk full") }
	panics := func(string) (io.WriteCloser, error) { panic("oh") }
	for _, tc := range []struct {
		name string
		cfg  fake.Config
		want string
		text string
	}{
		{"no such command", fake.Config{Programs: fake.ByCommand(nil, nil)}, "EXITED 128 StartError",
			cannotStart + `exec: "cmd": executable file not found in $PATH`},
		{"not executable", fake.Config{Programs: fails(fmt.Errorf("exec: %w", fake.ErrPermission))},
			"EXITED 128 StartError", cannotStart + "exec: permission denied"},
		{"chosen", fake.Config{Programs: fails(&fake.StartFailure{Reason: "ContainerCannotRun", Code: 127, Message: "not here"})},
			"EXITED 127 ContainerCannotRun", cannotStart + "not here"},
		{"chosen in part, wrapped", fake.Config{Programs: fails(fmt.Errorf("today: %w", &fake.StartFailure{Code: 126, Message: "no"}))},
			"EXITED 126 StartError", cannotStart + "today: no"},
		{"a status", fake.Config{Programs: fails(status.Error(codes.ResourceExhausted, "no memory"))},
			"EXITED 128 StartError", "no memory"},
		{"no program", fake.Config{Programs: fails(nil)}, "EXITED 128 StartError", cannotStart + "the Resolver returned no program"},
		{"the Resolver panics", fake.Config{Programs: func(context.Context, *fake.Process) (fake.Program, error) { panic("oh") }},
			"EXITED 128 StartError", cannotStart + "the Resolver panicked: oh"},
		{"no log", fake.Config{OpenLog: noFile}, "EXITED 128 StartError",
			`failed to create containerd task: failed to create container loggers: failed to open container log "/logs/p/c.log": disk full`},
		{"OpenLog panics", fake.Config{OpenLog: panics}, "EXITED 128 StartError",
			`failed to create containerd task: failed to create container loggers: failed to open container log "/logs/p/c.log": Config.OpenLog panicked: oh`},
	} {
		bubble(t, tc.name, func(t *testing.T) {
			tc.cfg.AnyImage = true
			if tc.cfg.OpenLog == nil {
				tc.cfg.OpenLog = (&memoryLogs{}).open // not on the disk
			}
			rt := start(t, tc.cfg)
			sandboxID, err := rt.RunPodSandbox(t.Context(), logs(podConfig("p")), "")
			require.NoError(t, err)
			config := containerConfig("p", "c", "cmd")
			config.LogPath = "c.log"
			id, err := rt.CreateContainer(t.Context(), sandboxID, config, podConfig("p"))
			require.NoError(t, err)
			err = rt.StartContainer(t.Context(), id)
			require.Error(t, err)
			s := statusOf(t, rt, id)
			require.Equal(t, tc.want, brief(s))
			require.Equal(t, tc.text, s.Message)
			require.Equal(t, tc.text, status.Convert(err).Message())
			require.Zero(t, s.StartedAt)
			require.NotZero(t, s.FinishedAt)
			require.Error(t, rt.StartContainer(t.Context(), id), "once")
			require.NoError(t, rt.RemoveContainer(t.Context(), id))
		})
	}
}

// A start whose Resolver blocks returns when its context ends.
func TestResolverThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{AnyImage: true, Programs: func(ctx context.Context, _ *fake.Process) (fake.Program, error) {
			return nil, untilDone(ctx)
		}})
		sandboxID := sandbox(t, rt, "p")
		id := add(t, rt, sandboxID, "c", false)
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- rt.StartContainer(ctx, id) }()
		synctest.Wait()
		require.Error(t, rt.StartContainer(t.Context(), id), "under way")
		require.Error(t, rt.RemoveContainer(t.Context(), id), "under way")
		cancel()
		require.Equal(t, codes.Canceled, status.Code(<-result))
		require.Equal(t, "EXITED 128 StartError", brief(statusOf(t, rt, id)))
		require.NoError(t, rt.RemovePodSandbox(t.Context(), sandboxID))
	})
}

// ByImage selects by the image of the pod, although the container's config has the image's ID.
func TestByImage(t *testing.T) {
	ran := func(code int) fake.Program { return fake.Exit(code) }
	resolver := fake.ByImage(map[string]fake.Program{"busybox": ran(1), "registry.example/app:v2": ran(2)}, ran(3))
	for image, want := range map[string]int{"busybox": 1, "docker.io/library/busybox:latest": 1, "registry.example/app:v2": 2, "registry.example/app": 3, "sha256:0": 3} {
		program, err := resolver(t.Context(), &fake.Process{Container: fake.ContainerIdentity{Image: image}})
		require.NoError(t, err)
		require.Equal(t, want, program(t.Context(), nil), image)
	}
}
