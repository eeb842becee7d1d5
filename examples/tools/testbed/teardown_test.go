package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/examples/tools/testbed/internal/env"
	"github.com/podwright/podwright/examples/tools/testbed/tb"
)

// leavePodsVar makes this test binary a command that starts pods and does not remove them. With
// "end" it ends at once, with "signal" on SIGINT, with "ignore" never.
const leavePodsVar = "PODWRIGHT_TESTBED_TEST_HOLD"

// TestLeavePodsHelper is the command of the testbeds that the tests below start.
func TestLeavePodsHelper(t *testing.T) {
	how := os.Getenv(leavePodsVar)
	if how == "" {
		t.Skip("only for testbeds started by tests")
	}
	interrupted, stop := signal.NotifyContext(t.Context(), syscall.SIGINT)
	defer stop()
	eachRuntime(t, func(t *testing.T, rt tb.Runtime, images tb.ImageNames) {
		c, err := dialCRI(strings.TrimPrefix(rt.Endpoint, "unix://"))
		require.NoError(t, err)
		defer c.conn.Close()
		for i := range 3 {
			leavePod(t, c, images, fmt.Sprintf("%s-%d", rt.Name, i))
		}
	})
	if how == "ignore" { // before the parent may send a signal
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
	}
	fmt.Printf("holding %s\n", os.Getenv(env.Run))
	switch how {
	case "signal":
		<-interrupted.Done()
	case "ignore":
		time.Sleep(time.Minute)
	}
}

// leavePod runs a pod with a host port, below a kubelet's cgroup. One of its processes ignores
// SIGTERM, another has its own session.
func leavePod(t *testing.T, c *criConn, images tb.ImageNames, name string) {
	config := &criv1.PodSandboxConfig{
		Metadata:     &criv1.PodSandboxMetadata{Name: name, Namespace: "testbed", Uid: name + os.Getenv(env.Run)},
		LogDirectory: os.TempDir(),
		PortMappings: []*criv1.PortMapping{{ContainerPort: 80}},
		Linux:        &criv1.LinuxPodSandboxConfig{CgroupParent: "/kubepods/pod" + name + os.Getenv(env.Run)},
	}
	if strings.HasSuffix(name, "-0") {
		// Below the ports that the kernel gives to servers of other tests, whose connections would go to the pod.
		config.PortMappings[0].HostPort = int32(20000 + os.Getpid()%10000 + len(name)%2)
		config.Linux.CgroupParent = "" // below /k8s.io
	}
	sandbox, err := c.runtime.RunPodSandbox(t.Context(), &criv1.RunPodSandboxRequest{Config: config})
	require.NoError(t, err)
	p := testPod{criConn: c, id: sandbox.GetPodSandboxId(), config: config}
	p.start(t, name+"-ignore", images.Testprog, "/testprog", "ignore")
	p.start(t, name+"-session", images.Busybox, "sh", "-c", "setsid sleep 1000 & exec sleep 1000")
}

type testbedRun struct {
	cmd    *exec.Cmd
	log    string // file with its stderr; orphans would keep a pipe open
	cache  cache
	run    record
	own    owner
	others []string // its paths outside of the folder
}

func (r *testbedRun) stderr(t *testing.T) string {
	text, err := os.ReadFile(r.log)
	require.NoError(t, err)
	return string(text)
}

func buildTestbed(t *testing.T) string {
	if os.Getenv(leavePodsVar) != "" {
		t.Skip("runs in a testbed started by a test")
	}
	if testing.Short() {
		t.Skip("starts whole testbeds")
	}
	tb.Runtimes(t) // skips without the tools
	bin := filepath.Join(t.TempDir(), "testbed")
	require.NoError(t, runQuiet(exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".")))
	return bin
}

// startTestbedWithPods starts a testbed and returns when its pods run.
func startTestbedWithPods(t *testing.T, bin, how string) *testbedRun {
	self, err := os.Executable()
	require.NoError(t, err)
	stderr, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer stderr.Close()
	r := &testbedRun{log: stderr.Name()}
	r.cmd = exec.Command(bin, "--", self, "-test.run=^TestLeavePodsHelper$")
	r.cmd.Env = append(withoutTestbedVars(os.Environ()), leavePodsVar+"="+how)
	r.cmd.Stderr = stderr
	out, err := r.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, r.cmd.Start())
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // for a failed test
		_ = r.cmd.Wait()
	})

	var id string
	lines := bufio.NewScanner(out)
	for id == "" && lines.Scan() {
		id, _ = strings.CutPrefix(lines.Text(), "holding ")
		if strings.Contains(id, " ") {
			id = ""
		}
	}
	require.NotEmpty(t, id, r.stderr(t))
	r.cache, err = openCache()
	require.NoError(t, err)
	r.run, err = r.cache.load(id)
	if how == "end" {
		return r // may have ended already
	}
	require.NoError(t, err)
	r.own = owner{id: id, dir: r.run.Dir, ids: containerIDs(r.run.Dir)}
	require.GreaterOrEqual(t, len(r.own.ids), 2*3*3)
	r.others = shimSockets(r.run.Dir)
	require.Len(t, r.others, 2*3)
	require.Eventually(t, func() bool { // a started shell may not have started its own processes yet
		procs, err := r.own.find()
		return err == nil && len(procs) >= 2*(1+3*5)
	}, time.Minute, 20*time.Millisecond)
	if natRules(t.Context()) != "" {
		require.Contains(t, natRules(t.Context()), r.run.Networks[0].Name)
	}
	return r
}

// requireGone checks that all resources of the run were removed.
func (r *testbedRun) requireGone(t *testing.T) {
	require.Empty(t, sweeper{cache: r.cache, run: r.run}.left(r.own), r.stderr(t))
	for _, path := range append(r.others, r.cache.recordPath(r.run.ID)) {
		require.NoFileExists(t, path)
	}
	for _, n := range r.run.Networks {
		require.NotContains(t, natRules(t.Context()), n.Name)
		cached, err := filepath.Glob(filepath.Join(cniCache, n.Name+"-*"))
		require.NoError(t, err)
		require.Empty(t, cached)
	}
	require.False(t, alive(r.run.Command))
	for _, dir := range cgroupDirs(cgroupRoot) {
		require.False(t, strings.HasSuffix(filepath.Base(dir), r.run.ID), dir) // the id may be within the id of another run's container
	}
}

// TestNothingLeft: testbeds clean up after each kind of end. They run inside of the testbed of
// this test, so the test also shows that testbeds do not disturb each other.
func TestNothingLeft(t *testing.T) {
	bin := buildTestbed(t)
	for name, end := range map[string]func(*testing.T, string){
		"command ends with pods left":    commandEndsWithPodsLeft,
		"interrupt delivered twice":      interruptDeliveredTwice,
		"second interrupt kills command": secondInterruptKillsCommand,
		"killed":                         killed,
		"killed with watchdog":           killedWithWatchdog,
		"interrupt during set-up":        interruptDuringSetUp,
	} {
		t.Run(name, func(t *testing.T) { end(t, bin) })
	}
}

func commandEndsWithPodsLeft(t *testing.T, bin string) {
	r := startTestbedWithPods(t, bin, "end")
	require.NoError(t, r.cmd.Wait(), r.stderr(t))
	require.Contains(t, r.stderr(t), "nothing left behind")
}

func interruptDeliveredTwice(t *testing.T, bin string) {
	r := startTestbedWithPods(t, bin, "signal")
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, r.cmd.Wait(), r.stderr(t))
	require.NotContains(t, r.stderr(t), "killing the command")
	require.Contains(t, r.stderr(t), "nothing left behind")
	r.requireGone(t)
}

func secondInterruptKillsCommand(t *testing.T, bin string) {
	r := startTestbedWithPods(t, bin, "ignore")
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
	time.Sleep(signalWindow + 200*time.Millisecond)
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, r.cmd.Wait())
	require.Equal(t, 128+9, r.cmd.ProcessState.ExitCode(), r.stderr(t))
	require.Contains(t, r.stderr(t), "nothing left behind")
	r.requireGone(t)
}

// killed shows that the watchdog cleans up after a kill -9, in each state of the runtimes.
func killed(t *testing.T, bin string) {
	for _, verb := range []string{"", "pause", "kill", "stop"} {
		t.Run("runtimes "+verb, func(t *testing.T) {
			r := startTestbedWithPods(t, bin, "ignore")
			if verb != "" {
				for _, key := range []string{"v1", "v2"} {
					require.NoError(t, postControl(t.Context(), filepath.Join(r.run.Dir, "ctl.sock"), key, verb))
				}
			}
			require.NoError(t, r.cmd.Process.Kill())
			require.Eventually(t, func() bool { return !alive(r.run.Watchdog) }, 3*time.Minute, 20*time.Millisecond)
			require.Error(t, r.cmd.Wait())
			require.Contains(t, r.stderr(t), "testbed was killed; cleaned up after it")
			require.Contains(t, r.stderr(t), "nothing left behind")
			r.requireGone(t)
		})
	}
}

// killedWithWatchdog shows that the next start cleans up if the watchdog was killed, too.
func killedWithWatchdog(t *testing.T, bin string) {
	r := startTestbedWithPods(t, bin, "ignore")
	require.NoError(t, syscall.Kill(r.run.Watchdog.PID, syscall.SIGKILL))
	require.NoError(t, r.cmd.Process.Kill())
	require.Error(t, r.cmd.Wait())
	require.NotEmpty(t, sweeper{cache: r.cache, run: r.run}.left(r.own))

	next := exec.CommandContext(t.Context(), bin, "--", "sh", "-c", "exit 42")
	next.Env = withoutTestbedVars(os.Environ())
	out, err := next.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, 42, next.ProcessState.ExitCode(), string(out))
	require.Contains(t, string(out), "cleaned up after a run that was killed")
	require.NotContains(t, string(out), "LEFT BEHIND")
	r.requireGone(t)
}

func interruptDuringSetUp(t *testing.T, bin string) {
	for _, after := range []time.Duration{10 * time.Millisecond, 150 * time.Millisecond, 400 * time.Millisecond, 700 * time.Millisecond} {
		cmd := exec.CommandContext(t.Context(), bin, "--", "sleep", "60")
		cmd.Env = withoutTestbedVars(os.Environ())
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(t, cmd.Start())
		time.Sleep(after)
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM)) // background jobs may ignore SIGINT
		require.Error(t, cmd.Wait())
		require.NotContains(t, out.String(), "LEFT BEHIND")
	}
}

func postControl(ctx context.Context, socket, key, verb string) error {
	curl := exec.CommandContext(ctx, "curl", "-fsS", "-X", "POST", "--unix-socket", socket, "http://testbed/"+key+"/"+verb)
	return runQuiet(curl)
}
