package embedded_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/embedded"
	"github.com/podwright/podwright/cri/fake"
)

const (
	helperAgentEnv = "EMBEDDED_TEST_HELPER_AGENT"
	markEnv        = "EMBEDDED_TEST_MARK"
)

// helperAgent is the agent that a test kills. It runs one container on the embedded runtime and
// waits.
func helperAgent(dir string) {
	rt, err := embedded.New(embedded.Config{StateDir: filepath.Join(dir, "state")})
	if err == nil {
		err = helperPod(rt, os.Getenv(markEnv))
	}
	if err != nil {
		fmt.Println("failed:", err)
		return
	}
	fmt.Println("running")
	select {}
}

// family starts background processes of each kind: in the group, in another session, as a daemon,
// ignoring signals.
const family = `
trap '' TERM HUP
sleep 1001 &
setsid sleep 1002 &
(setsid sh -c 'trap "" TERM; sleep 1003 & sleep 1004' &)
nohup sleep 1005 >/dev/null 2>&1 &
echo ready
wait
`

func helperPod(rt *embedded.Runtime, mark string) error {
	ctx := context.Background()
	sandboxID, err := rt.RunPodSandbox(ctx, podConfig("p", ""), "")
	if err != nil {
		return err
	}
	config := containerConfig("sh", "-c", family)
	config.Envs = []*runtimeapi.KeyValue{{Key: markEnv, Value: []byte(mark)}}
	id, err := rt.CreateContainer(ctx, sandboxID, config, podConfig("p", ""))
	if err != nil {
		return err
	}
	return rt.StartContainer(ctx, id)
}

func podConfig(name, logDirectory string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: "uid-" + name},
		Hostname: name, LogDirectory: logDirectory,
	}
}

func containerConfig(command ...string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "c"}, Image: &runtimeapi.ImageSpec{Image: "busybox"}, Command: command,
	}
}

func statusOf(t *testing.T, rt *embedded.Runtime, id string) *runtimeapi.ContainerStatus {
	t.Helper()
	response, err := rt.ContainerStatus(t.Context(), id, false)
	require.NoError(t, err)
	return response.Status
}

// ownMark returns a mark that is unique to this test process.
func ownMark(mark string) string { return fmt.Sprint(mark, " ", os.Getpid()) }

func marked(mark string) []string {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var found []string
	for _, dir := range dirs {
		environ, _ := os.ReadFile(dir + "/environ")
		if bytes.Contains(environ, []byte(markEnv+"="+ownMark(mark)+"\x00")) {
			cmdline, _ := os.ReadFile(dir + "/cmdline")
			found = append(found, dir+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return found
}

// sleepers counts the marked sleep processes of family.
func sleepers(mark string) int {
	n := 0
	for _, process := range marked(mark) {
		if _, command, _ := strings.Cut(process, " "); strings.HasPrefix(command, "sleep 100") {
			n++
		}
	}
	return n
}

func eventually(t *testing.T, condition func() bool, message string, args ...any) {
	t.Helper()
	require.Eventually(t, condition, time.Minute, 20*time.Millisecond, append([]any{message}, args...)...)
}

// All processes end with the agent, by SIGKILL and by SIGTERM.
func TestNothingSurvivesTheAgent(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			mark := fmt.Sprintf("%d-%d-%d", os.Getpid(), sig, time.Now().UnixNano())
			agent := exec.Command(os.Args[0])
			agent.Env = append(os.Environ(), helperAgentEnv+"="+t.TempDir(), markEnv+"="+ownMark(mark))
			var out bytes.Buffer
			agent.Stdout = &out
			require.NoError(t, agent.Start())
			defer func() { _ = agent.Process.Kill() }()
			// Five sleeps, and at least two shells, a supervisor and the agent.
			eventually(t, func() bool { return sleepers(mark) == 5 }, "the family is not complete")
			require.GreaterOrEqual(t, len(marked(mark)), 9, "%v", marked(mark))

			require.NoError(t, agent.Process.Signal(sig))
			_ = agent.Wait()
			eventually(t, func() bool { return len(marked(mark)) == 0 }, "processes survive")
		})
	}
}

func TestKilledSupervisorTakesItsCommandAlong(t *testing.T) {
	rt, mark := newRuntime(t), fmt.Sprint(os.Getpid(), time.Now().UnixNano())
	id := host(t, rt, mark, "sh", "-c", "sleep 1001 & sleep 1002 & wait")
	eventually(t, func() bool { return sleepers(mark) == 2 }, "not started")
	supervisor := parentOf(t, processWith(t, mark, "wait"))
	require.NoError(t, syscall.Kill(supervisor, syscall.SIGKILL))
	s := exited(t, rt, id)
	require.EqualValues(t, 137, s.ExitCode)
	eventually(t, func() bool { return len(marked(mark)) == 0 }, "processes survive")
}

func processWith(t *testing.T, mark, text string) (pid int) {
	t.Helper()
	for _, process := range marked(mark) {
		if strings.Contains(process, text) {
			_, err := fmt.Sscanf(process, "/proc/%d", &pid)
			require.NoError(t, err)
			return pid
		}
	}
	t.Fatalf("no process with %q: %v", text, marked(mark))
	return 0
}

func parentOf(t *testing.T, pid int) (parent int) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	_, err = fmt.Sscanf(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " %s %d", new(string), &parent)
	require.NoError(t, err)
	return parent
}

func newRuntime(t *testing.T) *embedded.Runtime {
	t.Helper()
	rt, err := embedded.New(embedded.Config{StateDir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	return rt
}

// host starts a container in its own pod with a log file.
func host(t *testing.T, rt *embedded.Runtime, mark string, command ...string) string {
	t.Helper()
	id, err := tryHost(t, rt, mark, func(c *runtimeapi.ContainerConfig) { c.Command = command })
	require.NoError(t, err)
	return id
}

func tryHost(t *testing.T, rt *embedded.Runtime, mark string, change func(*runtimeapi.ContainerConfig)) (string, error) {
	t.Helper()
	pod := podConfig(fmt.Sprintf("pod-%d", time.Now().UnixNano()), t.TempDir())
	sandboxID, err := rt.RunPodSandbox(t.Context(), pod, "")
	require.NoError(t, err)
	config := containerConfig()
	config.LogPath = "c/0.log"
	config.Envs = []*runtimeapi.KeyValue{{Key: markEnv, Value: []byte(ownMark(mark))}}
	change(config)
	id, err := rt.CreateContainer(t.Context(), sandboxID, config, pod)
	require.NoError(t, err)
	return id, rt.StartContainer(t.Context(), id)
}

func exited(t *testing.T, rt *embedded.Runtime, id string) *runtimeapi.ContainerStatus {
	t.Helper()
	eventually(t, func() bool {
		return statusOf(t, rt, id).State == runtimeapi.ContainerState_CONTAINER_EXITED
	}, "container does not exit")
	return statusOf(t, rt, id)
}

// logged returns the text of one stream in the container's log.
func logged(t *testing.T, rt *embedded.Runtime, id, stream string) string {
	t.Helper()
	raw, err := os.ReadFile(statusOf(t, rt, id).LogPath)
	require.NoError(t, err)
	var text strings.Builder
	for line := range strings.Lines(string(raw)) {
		parts := strings.SplitN(line, " ", 4)
		require.Len(t, parts, 4, "%q", line)
		_, err := time.Parse(time.RFC3339Nano, parts[0])
		require.NoError(t, err)
		if parts[1] == stream {
			text.WriteString(parts[3])
		}
	}
	return text.String()
}

func TestHostProcess(t *testing.T) {
	rt := newRuntime(t)
	version, err := rt.Version(t.Context())
	require.NoError(t, err)
	require.Equal(t, "embedded", version.RuntimeName)

	t.Run("exit code, output, environment, directory", func(t *testing.T) {
		t.Setenv("SECRET_OF_THE_AGENT", "x")
		id, err := tryHost(t, rt, "env", func(c *runtimeapi.ContainerConfig) {
			c.Command = []string{"sh", "-c"}
			c.Args = []string{`echo out; echo err >&2; pwd; env | sort | cut -d= -f1 | tr '\n' ' '; exit 5`}
			c.WorkingDir = "/tmp"
		})
		require.NoError(t, err)
		s := exited(t, rt, id)
		require.EqualValues(t, 5, s.ExitCode)
		require.Equal(t, "Error", s.Reason)
		require.Equal(t, "err\n", logged(t, rt, id, "stderr"))
		require.Equal(t, "out\n/tmp\n"+markEnv+" HOME HOSTNAME PATH PWD \n", logged(t, rt, id, "stdout"))
	})
	t.Run("a process killed by a signal", func(t *testing.T) {
		id := host(t, rt, "self", "sh", "-c", "kill -USR1 $$")
		require.EqualValues(t, 128+10, exited(t, rt, id).ExitCode)
	})
	t.Run("standard input is at its end, output is not lost", func(t *testing.T) {
		id := host(t, rt, "in", "sh", "-c", "cat; seq 1 20000")
		require.EqualValues(t, 0, exited(t, rt, id).ExitCode)
		require.Equal(t, 20000, strings.Count(logged(t, rt, id, "stdout"), "\n"))
	})
	for name, c := range map[string]struct {
		script   string
		sleepers int
		grace    time.Duration
		code     int32
	}{
		"SIGTERM goes to the whole group":            {"sleep 1001 & echo ready; wait", 1, 20 * time.Second, 143},
		"SIGTERM can be handled":                     {"trap 'exit 9' TERM; sleep 1001 & echo ready; wait", 1, 20 * time.Second, 9},
		"SIGKILL ends a family that ignores signals": {family, 5, time.Second, 137},
	} {
		t.Run(name, func(t *testing.T) {
			id := host(t, rt, name, "sh", "-c", c.script)
			eventually(t, func() bool { return sleepers(name) == c.sleepers }, "not started")
			require.NoError(t, rt.StopContainer(t.Context(), id, c.grace))
			require.Equal(t, c.code, exited(t, rt, id).ExitCode)
			require.Empty(t, marked(name))
		})
	}
	t.Run("the command's children end with it", func(t *testing.T) {
		id := host(t, rt, "left", "sh", "-c", "sleep 1001 & setsid sleep 1002 & exit 0")
		require.EqualValues(t, 0, exited(t, rt, id).ExitCode)
		require.Empty(t, marked("left"))
	})
	t.Run("ExecSync", func(t *testing.T) {
		id := host(t, rt, "exec", "sleep", "1001")
		stdout, stderr, err := rt.ExecSync(t.Context(), id, []string{"sh", "-c", "echo a; echo b >&2; exit 4"}, 0)
		var failed *cri.ExitError
		require.ErrorAs(t, err, &failed)
		require.EqualValues(t, 4, failed.Code)
		require.Equal(t, "a\n", string(stdout))
		require.Equal(t, "b\n", string(stderr))
		_, _, err = rt.ExecSync(t.Context(), id, []string{"sh", "-c", "sleep 1002 & sleep 1003"}, time.Second)
		require.ErrorIs(t, err, cri.ErrExecTimeout)
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))
		require.Equal(t, 1, sleepers("exec"), "only the container's own process remains")
		_, _, err = rt.ExecSync(t.Context(), id, []string{"no-such-command"}, 0)
		require.ErrorIs(t, err, fake.ErrNotFound)
	})
	t.Run("a cancelled call starts no process", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		id, err := tryHost(t, rt, "gone", func(c *runtimeapi.ContainerConfig) { c.Command = []string{"sleep", "1001"} })
		require.NoError(t, err)
		_, _, err = rt.ExecSync(ctx, id, []string{"sleep", "1002"}, 0)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 1, sleepers("gone"))
	})
}

func TestHostProcessStartErrors(t *testing.T) {
	rt := newRuntime(t)
	notExecutable := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(notExecutable, []byte("hello"), 0o644))
	notAProgram := filepath.Join(t.TempDir(), "binary")
	require.NoError(t, os.WriteFile(notAProgram, []byte("hello"), 0o755))
	cases := []struct {
		name   string
		change func(*runtimeapi.ContainerConfig)
		want   string
	}{
		{"no command", func(*runtimeapi.ContainerConfig) {}, "set command"},
		{"not in PATH", func(c *runtimeapi.ContainerConfig) { c.Command = []string{"no-such-command"} }, `exec: "no-such-command": executable file not found in $PATH`},
		{"not under its path", func(c *runtimeapi.ContainerConfig) { c.Command = []string{"/no/such/command"} }, `exec: "/no/such/command": no such file or directory`},
		{"not executable", func(c *runtimeapi.ContainerConfig) { c.Command = []string{notExecutable} }, "permission denied"},
		{"not a program", func(c *runtimeapi.ContainerConfig) { c.Command = []string{notAProgram} }, "exec format error"},
		{"no such directory", func(c *runtimeapi.ContainerConfig) {
			c.Command = []string{"sh"}
			c.WorkingDir = filepath.Join(filepath.Dir(notAProgram), "none")
		}, "chdir to cwd ("},
		{"PATH of the container", func(c *runtimeapi.ContainerConfig) {
			c.Command = []string{"sh"}
			c.Envs = append(c.Envs, &runtimeapi.KeyValue{Key: "PATH", Value: []byte("/empty")})
		}, "not found in $PATH"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			id, err := tryHost(t, rt, "", c.change)
			require.Equal(t, codes.Unknown, status.Code(err))
			require.ErrorContains(t, err, c.want)
			s := statusOf(t, rt, id)
			require.Equal(t, "StartError", s.Reason)
			require.EqualValues(t, 128, s.ExitCode)
		})
	}
}

func TestState(t *testing.T) {
	dir := t.TempDir()
	rt, err := embedded.New(embedded.Config{StateDir: dir})
	require.NoError(t, err)
	_, err = embedded.New(embedded.Config{StateDir: dir})
	require.ErrorContains(t, err, "in use by another process")
	_, err = embedded.New(embedded.Config{StateDir: "relative"})
	require.EqualError(t, err, `embedded: Config.StateDir is not absolute: "relative"`)
	_, err = embedded.New(embedded.Config{})
	require.EqualError(t, err, "embedded: Config.StateDir is required")

	id := host(t, rt, "scratch", "sh", "-c", "echo $PWD > kept; echo $HOME; sleep 1001")
	eventually(t, func() bool { return logged(t, rt, id, "stdout") != "" }, "no output")
	scratch := strings.TrimSpace(logged(t, rt, id, "stdout"))
	require.Equal(t, filepath.Join(dir, "scratch"), filepath.Dir(scratch))
	stdout, _, err := rt.ExecSync(t.Context(), id, []string{"cat", "kept"}, 0)
	require.NoError(t, err, "exec works in the container's directory")
	require.Equal(t, scratch+"\n", string(stdout))
	sandboxes, err := rt.ListPodSandbox(t.Context(), nil)
	require.NoError(t, err)
	sandbox, err := rt.PodSandboxStatus(t.Context(), sandboxes[0].Id, false)
	require.NoError(t, err)
	require.NotNil(t, net.ParseIP(sandbox.Status.Network.Ip))

	require.NoError(t, rt.Close())
	require.NoDirExists(t, scratch)
	rt, err = embedded.New(embedded.Config{StateDir: dir})
	require.NoError(t, err, "Close has released the directory")
	require.NoError(t, rt.Close())
	require.NoError(t, rt.Close())
}

// A link in the place of the lock file is refused, and its target is not created.
func TestLinkedLockFileIsRefused(t *testing.T) {
	dir, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
	require.NoError(t, os.Symlink(target, filepath.Join(dir, "lock")))
	_, err := embedded.New(embedded.Config{StateDir: dir})
	require.ErrorIs(t, err, syscall.ELOOP)
	require.NoFileExists(t, target)
}

func TestHostProcessNeedsTheHook(t *testing.T) {
	t.Setenv("PODWRIGHT_EMBEDDED_HOOK", "1") // as inherited from a parent that has the hook
	_, err := embedded.New(embedded.Config{StateDir: t.TempDir()})
	require.ErrorIs(t, err, embedded.ErrNoSupervisor)
}
