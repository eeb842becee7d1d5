package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// bystander starts a pod with exec probes. The returned function checks that the pod is unaffected.
func (s *scene) bystander(t *testing.T) (untouched func()) {
	t.Helper()
	c := shell("main", s.images.Busybox, untilTerm)
	c.LivenessProbe, c.ReadinessProbe = execProbe("true"), execProbe("true")
	s.writeManifest(t, "bystander.yaml", newPod("bystander", c))
	before := s.becomesReady(t, "bystander")
	return func() {
		t.Helper()
		require.NoError(t, s.untouched(before, "bystander"))
		require.Empty(t, s.events(t, "bystander", "Unhealthy"))
	}
}

// makeReadOnly makes the root folder read-only until the returned function is called.
func (s *scene) makeReadOnly(t *testing.T) (end func()) {
	t.Helper()
	require.NoError(t, os.MkdirAll(s.root, 0o755))
	require.NoError(t, unix.Mount(s.root, s.root, "", unix.MS_BIND|unix.MS_REC, ""))
	mounted := true
	end = func() {
		if mounted {
			require.NoError(t, unix.Unmount(s.root, unix.MNT_DETACH))
		}
		mounted = false
	}
	t.Cleanup(end)
	require.NoError(t, unix.Mount("", s.root, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	return end
}

// A read-only disk stops no pod and does not prevent the stop of pods. The kubelet reports it, also
// when started in this state, and continues without intervention afterwards.
func TestReadOnlyRoot(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		untouched := s.bystander(t)
		volume := newPod("volume", shell("main", s.images.Busybox, untilTerm))
		addVolume(volume, "v", "/v", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}})
		s.writeManifest(t, "volume.yaml", volume)
		s.writeManifest(t, "removed.yaml", newPod("removed", testprog(s.images.Testprog, "run")))
		before, removed := s.running(t, "volume"), s.running(t, "removed")
		require.NoError(t, s.healthy())

		end := s.makeReadOnly(t)
		s.removeManifest(t, "removed.yaml")
		s.writeManifest(t, "added.yaml", newPod("added", testprog(s.images.Testprog, "run")))
		wait(t, effectTimeout, "healthz reports the read-only root folder", func() error { return s.unhealthy("root folder "+s.root, "read-only") })
		wait(t, effectTimeout, "pod removed stops", func() error {
			if w := s.mustRuntimeState(t).of("removed"); len(w.running()) > 0 {
				return fmt.Errorf("%s", w)
			}
			return nil
		})
		wait(t, effectTimeout, "statusz reports the error of pod added", func() error {
			r, err := s.statusz()
			for _, p := range r.Pods {
				if strings.HasPrefix(p.Name, "added-") && strings.Contains(p.LastError, "read-only") {
					return err
				}
			}
			return errors.Join(err, fmt.Errorf("%+v", r.Pods))
		})

		s.kill(t)
		s.start(t)
		select {
		case <-s.proc.done:
		case <-time.After(effectTimeout):
			t.Fatal("the kubelet runs with a root folder that it cannot lock")
		}
		require.NotEmpty(t, s.logLines(t, "level=ERROR", "root folder", "read-only"))
		end()
		s.start(t)
		s.running(t, "added")
		wait(t, effectTimeout, "pod removed has no remains", func() error { return s.noRemains("removed", string(removed.UID)) })
		wait(t, effectTimeout, "healthz recovers", s.healthy)
		untouched()
		require.NoError(t, s.untouched(before, "volume"))
	})
}
