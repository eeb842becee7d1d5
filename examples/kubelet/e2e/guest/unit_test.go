package guest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/examples/kubelet/deploy"
)

// unit is the unit of the test. The guest has no kubelet.service.
const unit = "kubelet.service"

// The unit starts when the agent is ready. A suspended agent is replaced by the watchdog, and a
// stopped unit stops no helper. Pods, with their cgroups, survive all of it.
func TestGuestUnit(t *testing.T) {
	importImage(t)
	k := newKubelet(t, cgroups.Systemd)
	installUnit(t, k)
	runCommand(t, "systemctl", "start", unit)
	require.Equal(t, "active", show(t, "ActiveState"))
	pod := k.writeManifest(t, "stays", "pause", v1.ResourceRequirements{Limits: list("200m", "64Mi"), Requests: v1.ResourceList{}})
	id := k.running(t, pod)
	limit := k.read(k.tree.Pod(pod), "cpu.max")
	helper := startHelper(t)

	first := show(t, "MainPID")
	runCommand(t, "kill", "-STOP", first)
	until(t, "the watchdog replaces the agent", func() error {
		if show(t, "NRestarts") == "0" || show(t, "ActiveState") != "active" {
			return errors.New(show(t, "SubState"))
		}
		return nil
	})
	require.NotEqual(t, first, show(t, "MainPID"))
	runCommand(t, "systemctl", "stop", unit)
	require.Equal(t, "0", show(t, "MainPID"))
	require.DirExists(t, "/proc/"+helper)
	runCommand(t, "systemctl", "daemon-reload")
	runCommand(t, "systemctl", "start", unit)
	require.Equal(t, id, k.running(t, pod))
	require.Equal(t, limit, k.read(k.tree.Pod(pod), "cpu.max"))
	k.remove(t, pod)
}

// installUnit installs deploy's unit with a drop-in that runs the agent with a short watchdog.
func installUnit(t *testing.T, k *kubelet) {
	text, err := json.Marshal(settings{Folder: k.folder, Driver: string(k.driver), Root: "/podwright" + string(k.driver)})
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	base, err := fs.ReadFile(deploy.Units(), unit)
	require.NoError(t, err)
	dropIn := fmt.Sprintf("[Service]\nWatchdogSec=8s\nRestartSec=1\nExecStart=\nExecStart=%s\nEnvironment=%s=agent '%s=%s'\nStandardError=append:%s\n",
		self, programVariable, settingsVariable, text, k.log())
	path := filepath.Join("/run/systemd/system", unit)
	require.NoError(t, os.MkdirAll(path+".d", 0o755))
	require.NoError(t, os.WriteFile(path, base, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(path+".d", "test.conf"), []byte(dropIn), 0o644))
	runCommand(t, "systemctl", "daemon-reload")
	t.Cleanup(func() {
		runCommand(t, "systemctl", "stop", unit)
		require.NoError(t, errors.Join(os.RemoveAll(path+".d"), os.Remove(path)))
		runCommand(t, "systemctl", "daemon-reload")
	})
}

// startHelper starts a process in the unit's cgroup, as a helper of a mount is, and returns its ID.
func startHelper(t *testing.T) string {
	cmd := exec.Command("sleep", "1000")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	id := fmt.Sprint(cmd.Process.Pid)
	require.NoError(t, os.WriteFile(filepath.Join("/sys/fs/cgroup", show(t, "ControlGroup"), "cgroup.procs"), []byte(id), 0))
	return id
}

func show(t *testing.T, property string) string {
	out, err := exec.Command("systemctl", "show", unit, "--value", "-p", property).CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}
