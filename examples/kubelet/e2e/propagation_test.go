package e2e_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume/mounts"
)

// Mounts propagate from a container to the host and to another container if both request it, below
// the root folder, and to no third one. The same holds after a kill of the kubelet.
func TestMountPropagation(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		shared := filepath.Join(s.root, "plugins", "driver")
		start := func(name, script string, how v1.MountPropagationMode) {
			pod := newPod(name, shell("main", s.images.Busybox, script))
			addVolume(pod, "v", "/v", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: shared, Type: new(v1.HostPathDirectoryOrCreate)}},
				func(m *v1.VolumeMount) { m.MountPropagation = &how })
			pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Privileged: new(how == v1.MountPropagationBidirectional)}
			s.writeManifest(t, name+".yaml", pod)
		}
		waitForMounts := func(name string) string {
			return "for m in first second; do until [ -e /v/$m/found ]; do sleep 0.1; done; touch /v/" + name + "-$m; done" + untilTerm
		}
		start("receiver", waitForMounts("receiver"), v1.MountPropagationHostToContainer)
		start("isolated", waitForMounts("isolated"), v1.MountPropagationNone)
		s.running(t, "receiver")
		s.running(t, "isolated")
		for _, sub := range []string{"first", "second"} {
			start(sub, "mkdir /v/"+sub+" && mount -t tmpfs "+sub+" /v/"+sub+" && touch /v/"+sub+"/found"+untilTerm, v1.MountPropagationBidirectional)
			wait(t, time.Minute, "the mount appears on the host", func() error { return fileHas(filepath.Join(shared, sub, "found"), "") })
			wait(t, time.Minute, "the mount appears in the receiver", func() error { return fileHas(filepath.Join(shared, "receiver-"+sub), "") })
			s.kill(t)
			s.start(t)
		}
		require.NoFileExists(t, filepath.Join(shared, "isolated-first"))
		points, err := mounts.TableBelow(shared)
		require.NoError(t, err)
		require.Len(t, points, 2)
	})
}
