package e2e_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// The example of the documentation works: the repository's manifests on the embedded runtime, in a
// user's folders, without a testbed. kill -9 of the kubelet leaves no process of a container.
func TestEmbedded(t *testing.T) {
	manifests, err := filepath.Abs("../../manifests")
	require.NoError(t, err)
	home := t.TempDir()
	k := newKubelet(t, options{
		node: "laptop", endpoint: "embedded", manifests: manifests, defaultRoot: true,
		env: []string{"HOME=" + home, "XDG_STATE_HOME="},
	})
	// The runtime ends with the kubelet and forgets its containers. Restart counts are restored
	// from the logs, so that they continue, and a finished pod does not run again.
	for round := range 2 {
		k.start(t)
		k.running(t, "hello")
		wait(t, 20*time.Second, "once succeeds", func() error {
			p, c, err := k.container("once", "main")
			if err == nil && (p.Status.Phase != v1.PodSucceeded || c.State.Terminated == nil || c.RestartCount != 0) {
				err = errors.New(brief(p))
			}
			return err
		})
		wait(t, 30*time.Second, "crash is in CrashLoopBackOff", func() error {
			p, c, err := k.container("crash", "failing")
			if err != nil {
				return err
			}
			last := c.LastTerminationState.Terminated
			if c.State.Waiting == nil || c.State.Waiting.Reason != "CrashLoopBackOff" || last == nil || last.ExitCode != 3 {
				return errors.New(brief(p))
			}
			return nil
		})
		wait(t, 30*time.Second, "steady runs, and its restart count continues", func() error {
			p, steady, err := k.container("crash", "steady")
			if err == nil && (steady.State.Running == nil || int(steady.RestartCount) != round) {
				err = errors.New(brief(p))
			}
			return err
		})
		require.NoError(t, k.healthy())

		logs, err := filepath.Glob(filepath.Join(home, ".local/state/podwright/logs/*hello*/main/*.log"))
		require.NoError(t, err)
		require.NotEmpty(t, logs, "logs are in the user's state folder")
		wait(t, 10*time.Second, "the container's output is in its log", func() error { return fileHas(logs[len(logs)-1], "stdout F hello from hello") })

		pids := descendants(t, k.proc.cmd.Process.Pid)
		require.GreaterOrEqual(t, len(pids), 4, "two running containers and their supervisors")
		if round == 0 {
			k.kill(t)
		} else {
			require.Zero(t, k.terminate(t, 20*time.Second), "exit code")
		}
		wait(t, 10*time.Second, "the processes of the containers end", func() error {
			for _, pid := range pids {
				if p := statOf(pid.id); p == pid {
					return fmt.Errorf("process %d still runs", pid.id)
				}
			}
			return nil
		})
	}
}

// pid identifies a process. The start time distinguishes processes with the same number.
type pid struct {
	id, parent int
	start      uint64
}

// statOf reads /proc/PID/stat. It returns the zero pid for a missing process or a zombie.
func statOf(id int) pid {
	proc, err := procfs.NewProc(id)
	if err != nil {
		return pid{}
	}
	stat, err := proc.Stat()
	if err != nil || stat.State == "Z" {
		return pid{}
	}
	return pid{id: id, parent: stat.PPID, start: stat.Starttime}
}

func descendants(t testing.TB, of int) []pid {
	t.Helper()
	all, err := procfs.AllProcs()
	require.NoError(t, err)
	children := map[int][]pid{}
	for _, proc := range all {
		p := statOf(proc.PID)
		children[p.parent] = append(children[p.parent], p)
	}
	var out []pid
	for next := []int{of}; len(next) > 0; next = next[1:] {
		for _, c := range children[next[0]] {
			out = append(out, c)
			next = append(next, c.id)
		}
	}
	return out
}
