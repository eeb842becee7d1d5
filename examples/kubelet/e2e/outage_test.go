package e2e_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// untouched returns nil if the kubelet reports the pod unchanged: running, in the same containers,
// never restarted.
func (s *scene) untouched(before *v1.Pod, name string) error {
	now, err := s.pod(name)
	if err != nil {
		return err
	}
	if now.UID != before.UID || now.Status.Phase != v1.PodRunning || len(now.Status.ContainerStatuses) != len(before.Status.ContainerStatuses) {
		return errors.New(brief(now))
	}
	for i, c := range now.Status.ContainerStatuses {
		was := before.Status.ContainerStatuses[i]
		if c.ContainerID != was.ContainerID || c.State.Running == nil || c.RestartCount != was.RestartCount || !c.Ready {
			return fmt.Errorf("%s; was %s", brief(now), brief(before))
		}
	}
	return nil
}

// P5: a runtime that hangs for a while does not make containers count as dead. L1, P3 and C38: a
// crashed runtime is reported as such, and not as the death of its containers. Afterwards the
// kubelet starts and stops the pods that were added and removed meanwhile.
func TestRuntimeOutage(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		s.writeManifest(t, "steady.yaml", newPod("steady", testprog(s.images.Testprog, "run"), shell("second", s.images.Busybox, untilTerm)))
		networked := newPod("networked", testprog(s.images.Testprog, "http"))
		networked.Spec.HostNetwork = false
		s.writeManifest(t, "networked.yaml", networked)
		s.writeManifest(t, "removed.yaml", newPod("removed", testprog(s.images.Testprog, "run")))
		s.writeManifest(t, "edited.yaml", newPod("edited", testprog(s.images.Testprog, "run")))
		steady, other := s.running(t, "steady"), s.running(t, "networked")
		removed, edited := s.running(t, "removed"), s.running(t, "edited")
		require.NoError(t, s.healthy())
		before := s.mustRuntimeState(t)

		s.runtime.Pause(t)
		consistently(t, 10*time.Second, "no pod is reported as dead", func() error {
			return errors.Join(s.untouched(steady, "steady"), s.untouched(other, "networked"))
		})
		s.runtime.Resume(t)
		wait(t, 15*time.Second, "healthz recovers", s.healthy)

		s.runtime.Kill(t)
		wait(t, 15*time.Second, "healthz names the runtime", func() error { return s.unhealthy("[-]runtime", s.runtime.Endpoint) })
		s.writeManifest(t, "added.yaml", newPod("added", testprog(s.images.Testprog, "run")))
		s.removeManifest(t, "removed.yaml")
		s.writeManifest(t, "edited.yaml", newPod("edited", testprog(s.images.Testprog2, "run")))
		consistently(t, 3*time.Second, "no pod is reported as dead", func() error {
			return errors.Join(s.untouched(steady, "steady"), s.untouched(other, "networked"), s.unhealthy("[-]runtime"))
		})
		s.runtime.Start(t)

		wait(t, 20*time.Second, "healthz recovers", s.healthy)
		s.running(t, "added")
		wait(t, 20*time.Second, "pod removed has no remains", func() error { return s.noRemains("removed", string(removed.UID)) })
		wait(t, 20*time.Second, "pod edited is replaced", func() error {
			p, err := s.pod("edited")
			if err == nil && p.UID == edited.UID {
				err = errors.New("pod edited has its old UID")
			}
			return errors.Join(err, s.isRunning("edited"))
		})
		require.NoError(t, s.untouched(steady, "steady"))
		require.NoError(t, s.untouched(other, "networked"))
		after := s.mustRuntimeState(t).ids()
		for _, key := range []string{"steady/main", "steady/second", "networked/main"} {
			require.Equal(t, before.ids()[key], after[key], key)
		}
	})
}
