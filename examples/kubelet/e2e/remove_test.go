package e2e_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri"
)

// A pod that ignores SIGTERM is killed after its grace period, and a pod that obeys is removed at
// once. Neither leaves remains in the runtime or on the disk.
func TestRemovedPods(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		s.writeManifest(t, "stubborn.yaml", newPod("stubborn", testprog(s.images.Testprog, "ignore"), shell("second", s.images.Busybox, untilTerm)))
		polite := newPod("polite", testprog(s.images.Testprog, "run", "7"))
		polite.Spec.TerminationGracePeriodSeconds = new(int64(3600))
		polite.Spec.HostNetwork = false
		s.writeManifest(t, "polite.yaml", polite)
		stubborn, obeys := s.running(t, "stubborn"), s.running(t, "polite")
		require.NotEmpty(t, obeys.Status.PodIP)
		s.logHas(t, "stubborn", "main", "ready")
		s.logHas(t, "polite", "main", "ready")

		_, c, err := s.container("polite", "main")
		require.NoError(t, err)
		s.removeManifest(t, "polite.yaml")
		code, _ := s.watchEnd(t, c.ContainerID)
		require.EqualValues(t, 7, code)
		wait(t, 10*time.Second, "polite is removed", func() error { return s.noRemains("polite", string(obeys.UID)) })

		_, c, err = s.container("stubborn", "main")
		require.NoError(t, err)
		begin := time.Now()
		s.removeManifest(t, "stubborn.yaml")
		code, finished := s.watchEnd(t, c.ContainerID)
		require.EqualValues(t, 137, code)
		require.GreaterOrEqual(t, finished.Sub(begin), 2*time.Second)
		require.Less(t, finished.Sub(begin), 30*time.Second, "below the default grace period of 30 s")
		wait(t, 20*time.Second, "stubborn is removed", func() error { return s.noRemains("stubborn", string(stubborn.UID)) })
	})
}

// logHas waits for a text in a container's log, so that the program is ready for the next step.
func (s *scene) logHas(t testing.TB, pod, container, text string) {
	t.Helper()
	_, c, err := s.container(pod, container)
	require.NoError(t, err)
	status := s.inspect(t, c.ContainerID)
	wait(t, 10*time.Second, pod+" logs "+text, func() error { return fileHas(status.LogPath, text) })
}

// watchEnd polls a container without pause until it has exited, because the kubelet removes it soon
// afterwards.
func (s *scene) watchEnd(t testing.TB, id string) (code int32, finished time.Time) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for {
		resp, err := s.cri.ContainerStatus(ctx, bareID(id), false)
		if cri.IsNotFound(err) {
			require.NoError(t, err, "the container was removed before its exit was observed")
		}
		require.NoError(t, err)
		if resp.Status.FinishedAt != 0 {
			return resp.Status.ExitCode, time.Unix(0, resp.Status.FinishedAt)
		}
	}
}
