package containerd

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/exec"
)

func (p pod) shell(id, script string, timeout time.Duration) probe.Target {
	target := p.target(v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/bin/sh", "-c", script}}})
	target.ContainerID, target.Timeout = "containerd://"+id, timeout
	return target
}

func (n node) sleeper() (p pod, id string) {
	p = n.pod(runtimeapi.NamespaceMode_NODE)
	return p, p.start("app", n.busybox, "/bin/sh", "-c", "trap 'exit 0' TERM; sleep 1000000 & wait")
}

func (n node) alive(ctx context.Context) error {
	_, err := n.runtime.Version(ctx)
	return err
}

func (p pod) runs(id, word string) int {
	p.t.Helper()
	out, _, err := p.runtime.ExecSync(p.t.Context(), id, []string{"/bin/ps", "-o", "args"}, testTimeout)
	require.NoError(p.t, err)
	return strings.Count(string(out), word)
}

// T46 on real runtimes.
func TestExec(t *testing.T) {
	onContainerd(t, func(t *testing.T, n node) {
		p, id := n.sleeper()
		prober, err := exec.New(exec.Config{Runtime: n.runtime, Alive: n.alive})
		require.NoError(t, err)
		for script, want := range map[string]probe.Result{
			"exit 0":                          {Verdict: probe.Success},
			"echo out; echo err >&2":          {Verdict: probe.Success, Output: "out\nerr\n"},
			"echo out; echo err >&2; exit 3":  {Verdict: probe.Failure, Output: "out\nerr\n"},
			"kill -9 $$$$":                    {Verdict: probe.Failure, Output: "exit code 137"},
			"exit 255":                        {Verdict: probe.Failure, Output: "exit code 255"},
			"printf '%020000d' 0; echo e >&2": {Verdict: probe.Success, Output: strings.Repeat("0", 10<<10)},
		} {
			require.Equal(t, want, p.ask(prober, p.shell(id, script, testTimeout)), script)
		}
		for name, change := range map[string]func(*probe.Target){
			"no such command":   func(t *probe.Target) { t.Probe.Exec.Command = []string{"/no/such/command"} },
			"no such container": func(t *probe.Target) { t.ContainerID = "containerd://c0ffee" },
		} {
			target := p.shell(id, "exit 0", testTimeout)
			change(&target)
			got, err := prober.Probe(t.Context(), target)
			require.Error(t, err, name)
			require.Zero(t, got, name)
		}
	})
}

// T46, #110070: a command that exceeds the timeout fails and is killed, even if it ignores
// signals and floods its output.
func TestExecTimeout(t *testing.T) {
	onContainerd(t, func(t *testing.T, n node) {
		p, id := n.sleeper()
		prober, err := exec.New(exec.Config{Runtime: n.runtime, Grace: testTimeout})
		require.NoError(t, err)
		for script, mark := range map[string]string{
			"exec sleep 424242": "424242",
			"trap '' TERM INT HUP QUIT PIPE; while :; do echo 434343; done": "434343",
		} {
			begin := time.Now()
			got := p.ask(prober, p.shell(id, script, time.Second))
			require.Equal(t, probe.Failure, got.Verdict, got)
			require.Contains(t, got.Output, "timed out after 1s")
			require.LessOrEqual(t, len(got.Output), 11<<10)
			require.GreaterOrEqual(t, time.Since(begin), time.Second)
			n.eventually(func() bool { return p.runs(id, mark) == 0 })
		}
		require.Equal(t, probe.Success, p.ask(prober, p.shell(id, "exit 0", testTimeout)).Verdict, "the container works")
	})
}

// A command that floods its output and ends in time is harmless; its end may be lost.
func TestExecFlood(t *testing.T) {
	onContainerd(t, func(t *testing.T, n node) {
		p, id := n.sleeper()
		prober, err := exec.New(exec.Config{Runtime: n.runtime})
		require.NoError(t, err)
		for _, script := range []string{"yes | head -c 2000000; exit 4", "yes | head -c 40000000; exit 4"} {
			got, err := prober.Probe(t.Context(), p.shell(id, script, testTimeout))
			t.Logf("%s: %v, %d bytes, %v", script, got.Verdict, len(got.Output), err)
			if err != nil {
				require.ErrorIs(t, err, cri.ErrReplyTooLarge)
				continue
			}
			require.Equal(t, probe.Failure, got.Verdict)
			require.Len(t, got.Output, 10<<10)
		}
		require.Equal(t, probe.Success, p.ask(prober, p.shell(id, "exit 0", testTimeout)).Verdict)
	})
}

// A command that leaves a process with open output never ends for the runtime. The container
// fails; the runtime is healthy.
func TestExecLeavesProcess(t *testing.T) {
	onContainerd(t, func(t *testing.T, n node) {
		p, id := n.sleeper()
		prober, err := exec.New(exec.Config{Runtime: n.runtime, Grace: 500 * time.Millisecond, Alive: n.alive})
		require.NoError(t, err)
		n.eventually(func() bool { // a loaded runtime may seem to hang
			got, err := prober.Probe(t.Context(), p.shell(id, "sleep 454545 & exit 0", time.Second))
			if err == nil {
				require.Equal(t, probe.Failure, got.Verdict, got)
				require.Contains(t, got.Output, "did not end within 1s")
			}
			return err == nil
		})
	})
}
