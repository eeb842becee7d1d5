package e2e_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// untouched returns nil when the kubelet reports the pod as it was: running, in
// the same containers, never restarted.
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

// L1 and P3: a runtime that is away for 20 s is reported as that, and not as the
// death of its containers. Afterwards everything goes on by itself: what was added
// and removed meanwhile is started and stopped then.
func TestRuntimeOutage(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		s.place(t, "steady.yaml", newPod("steady", testprog(s.images.Testprog, "run"), shell("second", s.images.Busybox, untilTerm)))
		networked := newPod("networked", testprog(s.images.Testprog, "http"))
		networked.Spec.HostNetwork = false
		s.place(t, "networked.yaml", networked)
		s.place(t, "removed.yaml", newPod("removed", testprog(s.images.Testprog, "run")))
		s.place(t, "edited.yaml", newPod("edited", testprog(s.images.Testprog, "run")))
		steady, other := s.running(t, "steady"), s.running(t, "networked")
		removed, edited := s.running(t, "removed"), s.running(t, "edited")
		require.NoError(t, s.healthy())
		before := s.see(t)

		s.runtime.Stop(t)
		begin := time.Now()
		wait(t, 15*time.Second, "healthz names the runtime", func() error { return s.unhealthy("[-]runtime", s.runtime.Endpoint) })
		s.place(t, "added.yaml", newPod("added", testprog(s.images.Testprog, "run")))
		s.unplace(t, "removed.yaml")
		s.place(t, "edited.yaml", newPod("edited", testprog(s.images.Testprog2, "run")))
		hold(t, 20*time.Second-time.Since(begin), "nobody is reported dead", func() error {
			return errors.Join(s.untouched(steady, "steady"), s.untouched(other, "networked"), s.unhealthy("[-]runtime"))
		})
		s.runtime.Start(t)

		wait(t, 20*time.Second, "healthz recovers", s.healthy)
		s.running(t, "added")
		wait(t, 20*time.Second, "removed goes", func() error { return s.gone("removed", string(removed.UID)) })
		wait(t, 20*time.Second, "edited is replaced", func() error {
			p, err := s.pod("edited")
			if err == nil && p.UID == edited.UID {
				err = errors.New("still the old one")
			}
			return errors.Join(err, s.isRunning("edited"))
		})
		require.NoError(t, s.untouched(steady, "steady"))
		require.NoError(t, s.untouched(other, "networked"))
		after := s.see(t).ids()
		for _, key := range []string{"steady/main", "steady/second", "networked/main"} {
			require.Equal(t, before.ids()[key], after[key], key)
		}
	})
}

// P5 and C38: a runtime that hangs for 10 s in the middle of a pod's start
// damages nothing; the start ends where it would have ended.
func TestRuntimeHangs(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		s.place(t, "steady.yaml", newPod("steady", testprog(s.images.Testprog, "run")))
		steady := s.running(t, "steady")

		s.place(t, "starting.yaml", newPod("starting", testprog(s.images.Testprog, "run"), shell("second", s.images.Busybox, untilTerm)))
		wait(t, 10*time.Second, "the start is under way", func() error {
			report, err := s.statusz()
			for _, p := range report.Pods {
				if p.Name == "starting-"+s.node && p.Step != "" {
					return nil
				}
			}
			return errors.Join(err, fmt.Errorf("%+v", report.Pods))
		})
		s.runtime.Pause(t)
		hold(t, 10*time.Second, "nobody is reported dead", func() error { return s.untouched(steady, "steady") })
		s.runtime.Resume(t)

		starting := s.running(t, "starting")
		wait(t, 15*time.Second, "healthz recovers", s.healthy)
		w := s.see(t).of("starting")
		require.Len(t, w.sandboxes, 1, w.String())
		require.Len(t, w.containers, 2, w.String())
		require.NoError(t, s.untouched(starting, "starting"))
		for _, c := range starting.Status.ContainerStatuses {
			require.Zero(t, c.RestartCount)
		}
		require.NoError(t, s.untouched(steady, "steady"))
	})
}

// A runtime that is killed in the middle of a pod's start, and comes back at
// once, damages nothing either.
func TestRuntimeCrashes(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		s.place(t, "steady.yaml", newPod("steady", testprog(s.images.Testprog, "run")))
		steady := s.running(t, "steady")
		for i := range 3 {
			name := fmt.Sprintf("starting-%d", i)
			s.place(t, name+".yaml", newPod(name, testprog(s.images.Testprog, "run")))
			hold(t, time.Duration(i*60)*time.Millisecond, "nobody is reported dead", func() error { return s.untouched(steady, "steady") })
			s.runtime.Kill(t)
			s.runtime.Start(t)
		}
		for i := range 3 {
			name := fmt.Sprintf("starting-%d", i)
			s.running(t, name)
			wait(t, 30*time.Second, name+" is there once", func() error {
				w, err := s.look()
				if err == nil && len(w.of(name).running()) != 1 {
					err = errors.New(w.of(name).String())
				}
				return err
			})
		}
		require.NoError(t, s.untouched(steady, "steady"))
		wait(t, 15*time.Second, "healthz recovers", s.healthy)
	})
}
