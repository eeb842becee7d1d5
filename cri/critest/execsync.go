package critest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

func execSyncCases() []testCase {
	return []testCase{
		{"a command's two streams and its exit code come apart", func(e *env) {
			stdout, stderr, err := e.exec(e.ready(e.newPod(), "main", quits), writesBoth, execTime)
			requireExit(e.t, err, 3)
			require.Equal(e.t, "out\n", stdout)
			require.Equal(e.t, "err\n", stderr)
		}},
		{"exit code 0 is no error", func(e *env) {
			stdout, stderr, err := e.exec(e.ready(e.newPod(), "main", quits), blanks, execTime)
			require.NoError(e.t, err)
			require.Equal(e.t, "\n\nx\n\n", stdout)
			require.Empty(e.t, stderr)
		}},
		{"a mebibyte of output comes whole", func(e *env) {
			stdout, _, err := e.exec(e.ready(e.newPod(), "main", quits), big, execTime)
			require.NoError(e.t, err)
			require.Len(e.t, stdout, 1<<20)
			require.Empty(e.t, strings.Trim(stdout, "x"))
		}},
		{"output comes as it was written", func(e *env) {
			stdout, _, err := e.exec(e.ready(e.newPod(), "main", quits), binary, execTime)
			require.NoError(e.t, err)
			require.Equal(e.t, "\xff\x00\x01\r.\n\t \x80\n", stdout)
		}},
		{"a command has the container's environment and folder, and no input", func(e *env) {
			p := e.newPod()
			config := e.container("main", quits.command()...)
			config.Envs = []*runtimeapi.KeyValue{{Key: "COLOR", Value: []byte("blue")}}
			config.WorkingDir = "/tmp"
			stdout, _, err := e.exec(e.start(p.id, config, p.config), execReporter, execTime)
			require.NoError(e.t, err)
			require.Equal(e.t, "blue\n/tmp\n0\n", stdout)
		}},
		{"a command's output is not in the container's log", func(e *env) {
			p := e.newPod()
			id := e.ready(p, "main", quits)
			_, _, err := e.exec(id, writesBoth, execTime)
			requireExit(e.t, err, 3)
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, time.Minute))
			require.Equal(e.t, []string{"ready"}, e.text(p, "main"))
		}},
		{"a command that exceeds its timeout is killed with a timeout error", func(e *env) {
			id, file := e.beating()
			begin := time.Now()
			_, _, err := e.exec(id, beats, time.Second)
			require.ErrorIs(e.t, err, cri.ErrExecTimeout)
			require.GreaterOrEqual(e.t, time.Since(begin), time.Second)
			e.requireStill(file)
			require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_RUNNING, e.status(id).GetState())
		}},
		// The command may continue: runtimes that kill it may miss it. A timeout ends a command
		// reliably.
		{"a cancelled call returns at once, and the container continues", func(e *env) {
			id, file := e.beating()
			ctx, cancel := context.WithCancel(e.ctx)
			defer cancel()
			result := e.async(func() error {
				_, _, err := e.Runtime.ExecSync(ctx, id, beats.command(), 0)
				return err
			})
			e.eventually("the command runs", func() bool { return fileSize(file) > 0 })
			cancel()
			require.ErrorIs(e.t, <-result, context.Canceled)
			_, _, err := e.exec(id, writesBoth, execTime)
			requireExit(e.t, err, 3)
			require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_RUNNING, e.status(id).GetState())
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, 0))
			e.eventually("the command's end", func() bool {
				before := fileSize(file)
				e.sleep(200 * time.Millisecond)
				return fileSize(file) == before
			})
		}},
		{"a command in time does not wait for its timeout", func(e *env) {
			_, _, err := e.exec(e.ready(e.newPod(), "main", quits), slow, longGrace)
			require.NoError(e.t, err)
			require.NoError(e.t, e.ctx.Err())
		}},
		{"commands run side by side", func(e *env) {
			id := e.ready(e.newPod(), "main", quits)
			var running sync.WaitGroup
			output := make([]string, 8)
			failures := make([]error, len(output))
			for i := range output {
				running.Go(func() {
					what := []program{blanks, binary}[i%2]
					stdout, _, err := e.Runtime.ExecSync(e.ctx, id, what.command(), execTime)
					output[i], failures[i] = string(stdout), err
				})
			}
			running.Wait()
			require.NoError(e.t, errors.Join(failures...))
			for i, got := range output {
				require.Equal(e.t, []string{"\n\nx\n\n", "\xff\x00\x01\r.\n\t \x80\n"}[i%2], got)
			}
		}},
		{"a command ends with its container", func(e *env) {
			id, file := e.beating()
			result := e.async(func() error {
				_, _, err := e.Runtime.ExecSync(e.ctx, id, beats.command(), 0)
				return err
			})
			e.eventually("the command runs", func() bool { return fileSize(file) > 0 })
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, 0))
			requireExit(e.t, <-result, killedCode)
			e.requireStill(file)
		}},
		{"a missing command is an error, not an exit code", func(e *env) {
			id := e.ready(e.newPod(), "main", quits)
			for _, command := range []string{"critest-no-such-command", "/critest/no/such/command"} {
				_, _, err := e.Runtime.ExecSync(e.ctx, id, []string{command}, execTime)
				e.notRun(err)
			}
		}},
		{"an empty command is an error", func(e *env) {
			id := e.ready(e.newPod(), "main", quits)
			_, _, err := e.Runtime.ExecSync(e.ctx, id, nil, execTime)
			e.notRun(err)
		}},
		{"no command runs in a stopped container", func(e *env) {
			p := e.newPod()
			id := e.create(p.id, e.container("main", quits.command()...), p.config)
			try := func() error {
				_, _, err := e.Runtime.ExecSync(e.ctx, id, writesBoth.command(), execTime)
				return err
			}
			e.notRun(try())
			require.NoError(e.t, e.Runtime.StartContainer(e.ctx, id))
			e.printed(p, "main", "ready")
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, 0))
			e.notRun(try())
			require.NoError(e.t, e.Runtime.RemoveContainer(e.ctx, id))
			e.notFound(try())
		}},
	}
}

// execTime is a timeout that no command of the suite reaches by itself.
const execTime = time.Minute

func (e *env) exec(id string, what program, timeout time.Duration) (stdout, stderr string, err error) {
	e.t.Helper()
	out, errOut, err := e.Runtime.ExecSync(e.ctx, id, what.command(), timeout)
	return string(out), string(errOut), err
}

// requireExit requires the error of a command that ended with an exit code.
func requireExit(t testing.TB, err error, code int32) {
	t.Helper()
	exit, ok := errors.AsType[*cri.ExitError](err)
	require.True(t, ok, "want exit code %d, got %v", code, err)
	require.Equal(t, code, exit.Code)
}

// notRun requires the error of a command that did not run.
func (e *env) notRun(err error) {
	e.t.Helper()
	e.refused(err)
	_, ran := errors.AsType[*cri.ExitError](err)
	require.False(e.t, ran, "%v", err)
	require.NotErrorIs(e.t, err, cri.ErrExecTimeout)
}

// beating starts a container for the program beats and returns the path of its file.
func (e *env) beating() (id, file string) {
	e.t.Helper()
	p := e.newPod()
	folder := e.t.TempDir()
	config := e.container("main", quits.command()...)
	config.Mounts = []*runtimeapi.Mount{{ContainerPath: beatsFolder, HostPath: folder}}
	id = e.start(p.id, config, p.config)
	e.printed(p, "main", "ready")
	return id, filepath.Join(folder, "beats")
}

// requireStill requires that a file has grown and no longer grows.
func (e *env) requireStill(file string) {
	e.t.Helper()
	before := fileSize(file)
	require.Positive(e.t, before, "the command never ran")
	e.sleep(500 * time.Millisecond)
	require.Equal(e.t, before, fileSize(file), "the command still runs")
}

func fileSize(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}
