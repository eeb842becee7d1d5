package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// A24: SIGTERM ends the kubelet and not the pods. The next kubelet takes the pods over without
// restarts. Finished pods stay finished, and pods whose manifests were removed meanwhile are
// stopped.
func TestPodsSurviveTermination(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		for i := range 3 {
			s.writeManifest(t, fmt.Sprintf("stays-%d.yaml", i), newPod(fmt.Sprintf("stays-%d", i), testprog(s.images.Testprog, "run"), shell("second", s.images.Busybox, untilTerm)))
		}
		networked := newPod("networked", testprog(s.images.Testprog, "http"))
		networked.Spec.HostNetwork = false
		s.writeManifest(t, "networked.yaml", networked)
		once := newPod("once", testprog(s.images.Testprog, "exit", "3"))
		once.Spec.RestartPolicy = v1.RestartPolicyNever
		s.writeManifest(t, "once.yaml", once)
		leaves := newPod("leaves", testprog(s.images.Testprog, "run"))
		s.writeManifest(t, "leaves.yaml", leaves)
		names := []string{"stays-0", "stays-1", "stays-2", "networked", "leaves"}
		for _, name := range names {
			s.running(t, name)
		}
		wait(t, 20*time.Second, "once fails", func() error { return s.hasEnded("once", v1.PodFailed) })
		before := s.mustRuntimeState(t)

		require.Zero(t, s.terminate(t, 10*time.Second), "exit code")
		require.Equal(t, before.ids(), s.mustRuntimeState(t).ids(), "the containers without a kubelet")
		s.start(t)
		for _, name := range names {
			s.running(t, name)
		}
		consistently(t, 2*time.Second, "no container restarts", func() error { return sameContainers(before, s) })
		require.NoError(t, s.hasEnded("once", v1.PodFailed))

		// SIGTERM again, during a start.
		s.writeManifest(t, "late.yaml", newPod("late", testprog(s.images.Testprog, "run")))
		require.Zero(t, s.terminate(t, 10*time.Second), "exit code")
		s.removeManifest(t, "leaves.yaml")
		s.start(t)
		s.running(t, "late")
		wait(t, 20*time.Second, "leaves is removed", func() error { return s.noRemains("leaves") })
		require.NoError(t, s.hasEnded("once", v1.PodFailed))
		after := s.mustRuntimeState(t).ids()
		for key, id := range before.ids() {
			if key != "leaves/main" {
				require.Equal(t, id, after[key], key)
			}
		}
	})
}

// sameContainers returns nil if the same containers run as before.
func sameContainers(before runtimeState, s *scene) error {
	now, err := s.runtimeState()
	if err != nil {
		return err
	}
	have := now.ids()
	for key, id := range before.ids() {
		if have[key] != id {
			return fmt.Errorf("%s was %s, is %s", key, id, have[key])
		}
	}
	return nil
}

// hasEnded returns nil if the pod has the phase and its container ran once with a matching exit.
func (s *scene) hasEnded(name string, phase v1.PodPhase) error {
	p, c, err := s.container(name, "main")
	if err != nil {
		return err
	}
	code := map[v1.PodPhase]int32{v1.PodSucceeded: 0, v1.PodFailed: 3}[phase]
	if p.Status.Phase != phase || c.RestartCount != 0 || c.State.Terminated == nil || c.State.Terminated.ExitCode != code {
		return fmt.Errorf("want %s: %s", phase, brief(p))
	}
	return nil
}
