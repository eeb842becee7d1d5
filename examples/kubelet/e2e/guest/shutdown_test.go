package guest_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/cgroups"
)

// N35 with the machine's logind. The kubelet raises logind's maximum inhibitor delay. At poweroff
// logind waits for the pods. Its next step fails because poweroff.target is masked, so that logind
// reports a cancelled shutdown; the kubelet accepts pods again.
func TestGuestPowersOff(t *testing.T) {
	importImage(t)
	k := newKubelet(t, cgroups.Systemd)
	k.start(t)
	pod := k.writeManifest(t, "ends", "linger", v1.ResourceRequirements{})
	k.running(t, pod)
	until(t, "the kubelet has logind's lock", func() error {
		out, err := exec.Command("systemd-inhibit", "--list", "--no-pager").CombinedOutput()
		if err == nil && !strings.Contains(string(out), "Kubelet needs time to handle node shutdown") {
			err = errors.New(string(out))
		}
		return err
	})
	text, err := os.ReadFile("/etc/systemd/logind.conf.d/99-kubelet.conf")
	require.NoError(t, err)
	require.Contains(t, string(text), "InhibitDelayMaxSec=60\n")

	runCommand(t, "systemctl", "poweroff")
	k.waitKubeletLog(t, "the kubelet logs the shutdown", "the node is shutting down")
	runCommand(t, "systemctl", "mask", "--runtime", "poweroff.target")
	defer runCommand(t, "systemctl", "unmask", "--runtime", "poweroff.target")
	k.waitKubeletLog(t, "the shutdown fails, and the kubelet logs its cancellation", "the node shutdown was cancelled")
	c, err := k.container(t, pod)
	require.NoError(t, err)
	require.Equal(t, runtimeapi.ContainerState_CONTAINER_EXITED, c.State, "logind waited for the container")
	require.Equal(t, int32(0), c.ExitCode, "the container exited by SIGTERM within its grace period")
	after := k.writeManifest(t, "after", "pause", v1.ResourceRequirements{})
	k.running(t, after)
	k.remove(t, pod, after)
}

func (k *kubelet) waitKubeletLog(t *testing.T, goal, text string) {
	t.Helper()
	until(t, goal, func() error {
		log, err := os.ReadFile(k.log())
		if err == nil && !strings.Contains(string(log), text) {
			err = errors.New("no such line in the log")
		}
		return err
	})
}
