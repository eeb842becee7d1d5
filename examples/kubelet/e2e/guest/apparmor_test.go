package guest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/cgroups"
)

// profileOf is an AppArmor profile that forbids writes of /tmp/forbidden.
const profileOf = `profile %s flags=(attach_disconnected) {
  file, network, capability, signal, ptrace, mount, umount,
  deny /tmp/forbidden w,
}
`

func loadProfile(t *testing.T, name string) {
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, profileOf, name), 0o644))
	runCommand(t, "apparmor_parser", "--replace", "--skip-cache", file)
	t.Cleanup(func() { runCommand(t, "apparmor_parser", "--remove", file) })
}

// Each container runs under its requested profile, which forbids the listed actions; without a
// request it has the runtime's profile. A container whose profile is not loaded waits with a reason
// and runs as soon as the profile is loaded. A request without a profile name is rejected. Other
// pods are unaffected.
func TestGuestAppArmor(t *testing.T) {
	importImage(t)
	k := newKubelet(t, cgroups.Systemd)
	loadProfile(t, "podwright-loaded")
	k.start(t)
	put := func(name string, p *v1.AppArmorProfile) *v1.Pod {
		return k.writeManifest(t, name, "confined", v1.ResourceRequirements{}, func(pod *v1.Pod) {
			pod.Spec.SecurityContext = &v1.PodSecurityContext{AppArmorProfile: p}
		})
	}
	local := func(name string) *v1.AppArmorProfile {
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	}
	waits := put("waits", local("podwright-later"))
	unnamed := k.writeManifest(t, "unnamed", "confined", v1.ResourceRequirements{}, func(pod *v1.Pod) {
		pod.Annotations = map[string]string{v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + "main": v1.DeprecatedAppArmorBetaProfileNamePrefix}
	})
	pods := map[*v1.Pod]string{
		put("none", nil): "cri-containerd.apparmor.d (enforce)",
		put("default", &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}): "cri-containerd.apparmor.d (enforce)",
		put("free", &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}):        "unconfined",
		put("local", local("podwright-loaded")):                                         "podwright-loaded (enforce)\nforbidden: permission denied",
	}
	for pod, want := range pods {
		k.waitContainerLog(t, pod, want)
	}

	k.waitStatus(t, waits, "the status reports the missing profile", func(s v1.PodStatus) bool {
		if s.Phase != v1.PodPending || len(s.ContainerStatuses) != 1 || s.ContainerStatuses[0].State.Waiting == nil {
			return false
		}
		why := s.ContainerStatuses[0].State.Waiting
		return why.Reason == "CreateContainerError" && strings.Contains(why.Message, "apparmor profile not found podwright-later")
	})
	k.waitKubeletLog(t, "an event reports the missing profile", `apparmor profile not found podwright-later" reason=Failed`)
	loadProfile(t, "podwright-later")
	k.waitContainerLog(t, waits, "podwright-later (enforce)\nforbidden: permission denied")
	k.waitKubeletLog(t, "a request without a profile name is rejected",
		`msg="Cannot enforce AppArmor: invalid empty AppArmor profile name: appArmorProfile.localhostProfile" reason=AppArmor pod=default/unnamed-guest`)

	all := []*v1.Pod{waits, unnamed}
	for pod := range pods {
		all = append(all, pod)
	}
	k.remove(t, all...)
}

// waitContainerLog waits until the log of the pod's container is exactly want.
func (k *kubelet) waitContainerLog(t *testing.T, pod *v1.Pod, want string) {
	t.Helper()
	until(t, pod.Name+" logs its profile", func() error {
		c, err := k.container(t, pod)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(c.LogPath)
		if err != nil {
			return err
		}
		var lines []string
		for line := range strings.Lines(string(text)) {
			_, line, _ = strings.Cut(line, " stdout F ")
			lines = append(lines, strings.TrimSpace(line))
		}
		if got := strings.Join(lines, "\n"); got != want {
			return fmt.Errorf("log %q, want %q", got, want)
		}
		return nil
	})
}

// waitStatus waits until ok accepts the status of a pod.
func (k *kubelet) waitStatus(t *testing.T, pod *v1.Pod, goal string, ok func(v1.PodStatus) bool) {
	t.Helper()
	until(t, pod.Name+": "+goal, func() error {
		text, err := os.ReadFile(filepath.Join(k.folder, "root", "pods", string(pod.UID), "podwright-status.json"))
		if err != nil {
			return err
		}
		var file struct{ Record struct{ Status v1.PodStatus } }
		if err := json.Unmarshal(text, &file); err != nil {
			return err
		}
		if !ok(file.Record.Status) {
			return errors.New(string(text))
		}
		return nil
	})
}
