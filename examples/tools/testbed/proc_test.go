package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const testContainer = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestOwns(t *testing.T) {
	o := owner{id: "0a1b2c", dir: "/tmp/pwtb-0a1b2c", ids: []string{testContainer}}
	for name, tc := range map[string]struct {
		p    procInfo
		want bool
	}{
		"runtime":  {procInfo{Name: "containerd", Args: []string{"/usr/bin/containerd", "--config", "/tmp/pwtb-0a1b2c/v1/config.toml"}}, true},
		"shim":     {procInfo{Name: "containerd-shim", Args: []string{"x", "-address", "/tmp/pwtb-0a1b2c/v1/c.sock"}}, true},
		"plugin":   {procInfo{Name: "bridge", Environ: []string{"CNI_NETNS=/tmp/pwtb-0a1b2c/v1/state/netns/x"}}, true},
		"command":  {procInfo{Name: "go", Environ: []string{"HOME=/root", "PODWRIGHT_TESTBED=0a1b2c"}}, true},
		"pod v1":   {procInfo{Name: "sleep", Cgroups: "8:pids:/k8s.io/" + testContainer + "\n0::/\n"}, true},
		"pod v2":   {procInfo{Name: "sleep", Cgroups: "0::/kubepods.slice/cri-containerd-" + testContainer + ".scope\n"}, true},
		"pod root": {procInfo{Name: "sleep", RootMount: "1 2 0:3 / / rw - overlay overlay rw,upperdir=/tmp/pwtb-0a1b2c/v1/root/1/fs"}, true},

		"zombie":                       {procInfo{Name: "containerd", State: "Z", Args: []string{"/tmp/pwtb-0a1b2c/"}}, false},
		"process of the machine":       {procInfo{Name: "containerd", Args: []string{"/usr/bin/containerd"}}, false},
		"process of another run":       {procInfo{Name: "containerd", Args: []string{"--config", "/tmp/pwtb-0a1b2d/v1/config.toml"}}, false},
		"longer name":                  {procInfo{Name: "containerd", Args: []string{"--config", "/tmp/pwtb-0a1b2cd/v1/config.toml"}}, false},
		"command of another run":       {procInfo{Name: "go", Environ: []string{"PODWRIGHT_TESTBED=0a1b2d"}}, false},
		"reader of a log":              {procInfo{Name: "vim", Args: []string{"vim", "/tmp/pwtb-0a1b2c/containerd-v1.log"}}, false},
		"process in another container": {procInfo{Name: "sleep", Cgroups: "8:pids:/k8s.io/" + strings.Repeat("f", 64)}, false},
		"kernel thread":                {procInfo{Name: "kthreadd"}, false},
	} {
		require.Equal(t, tc.want, o.owns(tc.p), name)
	}
}

func TestAlive(t *testing.T) {
	self, err := identify(os.Getpid())
	require.NoError(t, err)
	require.True(t, alive(self))
	self.Start++
	require.False(t, alive(self))
	require.False(t, alive(procID{}))

	cmd := exec.Command("true")
	require.NoError(t, cmd.Start())
	id, err := identify(cmd.Process.Pid)
	require.NoError(t, err)
	// A process that was not waited for becomes a zombie, which is not alive.
	require.Eventually(t, func() bool { return !alive(id) }, time.Minute, time.Millisecond)
	require.NoError(t, cmd.Wait())
	require.False(t, alive(id))
}

// TestEndProcesses: a process is found by the id in its environment, and gets the second signal if
// it ignores the first.
func TestEndProcesses(t *testing.T) {
	out, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer out.Close()
	cmd := exec.Command("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
	cmd.Env = append(os.Environ(), "PODWRIGHT_TESTBED=fffffe")
	cmd.Stdout = out
	require.NoError(t, cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(out.Name())
		return err == nil && string(text) == "ready\n"
	}, time.Minute, 5*time.Millisecond)

	o := owner{id: "fffffe", dir: "/nonexistent/pwtb-fffffe"}
	find := func() ([]procInfo, error) { return o.find() }
	found, err := find()
	require.NoError(t, err)
	require.NotEmpty(t, found)
	require.Error(t, endProcesses(find, []endStep{{syscall.SIGTERM, 200 * time.Millisecond}}))
	require.NoError(t, endProcesses(find, []endStep{{syscall.SIGTERM, 50 * time.Millisecond}, {syscall.SIGKILL, time.Minute}}))
	require.ErrorContains(t, <-done, "killed")
}
