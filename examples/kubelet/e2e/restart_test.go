package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// C20 and W24: a container that fails is restarted at once, then 10 s after it
// has ended; what is not to be restarted is not, and the phase says how it ended.
func TestRestart(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		place := func(name string, policy v1.RestartPolicy, code string) {
			pod := newPod(name, testprog(s.images.Testprog, "exit", code))
			pod.Spec.RestartPolicy = policy
			s.place(t, name+".yaml", pod)
		}
		place("always", v1.RestartPolicyAlways, "3")
		place("never-0", v1.RestartPolicyNever, "0")
		place("never-3", v1.RestartPolicyNever, "3")
		place("onfailure-0", v1.RestartPolicyOnFailure, "0")
		place("onfailure-3", v1.RestartPolicyOnFailure, "3")

		runs := s.watchRuns(t, "always", 2)
		require.Less(t, runs[1].created().Sub(runs[0].finished()), 10*time.Second, "the first restart does not wait")
		s.crashLooping(t, "always", 1)
		for name, phase := range map[string]v1.PodPhase{
			"never-0": v1.PodSucceeded, "never-3": v1.PodFailed, "onfailure-0": v1.PodSucceeded,
		} {
			wait(t, 20*time.Second, name+" ends", func() error { return s.hasEnded(name, phase) })
		}
		s.crashLooping(t, "onfailure-3", 1)

		runs = append(runs, s.watchRuns(t, "always", 3)[2])
		pause := runs[2].created().Sub(runs[1].finished())
		require.GreaterOrEqual(t, pause, 10*time.Second)
		require.Less(t, pause, 20*time.Second, "the next pause")
		s.crashLooping(t, "always", 2)
		for name, phase := range map[string]v1.PodPhase{
			"never-0": v1.PodSucceeded, "never-3": v1.PodFailed, "onfailure-0": v1.PodSucceeded,
		} {
			require.NoError(t, s.hasEnded(name, phase))
		}
	})
}

// run is one instance of a container, as the runtime tells it.
type run struct{ *runtimeapi.ContainerStatus }

func (r run) created() time.Time  { return time.Unix(0, r.CreatedAt) }
func (r run) finished() time.Time { return time.Unix(0, r.FinishedAt) }

// watchRuns waits until n instances of the pod's one container have ended and
// returns them by attempt; those the runtime does not have any more are nil.
func (s *scene) watchRuns(t *testing.T, name string, n int) []run {
	t.Helper()
	runs := make([]run, n)
	wait(t, 40*time.Second, fmt.Sprintf("%s has run %d times", name, n), func() error {
		w, err := s.look()
		if err != nil {
			return err
		}
		for _, c := range w.of(name).containers {
			resp, err := s.cri.ContainerStatus(context.Background(), c.Id, false)
			if err != nil || resp.Status.FinishedAt == 0 || int(c.Metadata.Attempt) >= n {
				continue
			}
			runs[c.Metadata.Attempt] = run{resp.Status}
		}
		if runs[n-1].ContainerStatus == nil {
			return fmt.Errorf("have %s", w.of(name))
		}
		return nil
	})
	return runs
}

// crashLooping waits until the pod's container waits for another start, having
// ended with code 3.
func (s *scene) crashLooping(t *testing.T, name string, restarts int32) {
	t.Helper()
	wait(t, 20*time.Second, name+" is in CrashLoopBackOff", func() error {
		p, c, err := s.container(name, "main")
		if err != nil {
			return err
		}
		if c.RestartCount != restarts || c.State.Waiting == nil || c.State.Waiting.Reason != "CrashLoopBackOff" ||
			c.LastTerminationState.Terminated == nil || c.LastTerminationState.Terminated.ExitCode != 3 || p.Status.Phase != v1.PodRunning {
			return fmt.Errorf("%s; before: %+v", brief(p), c.LastTerminationState.Terminated)
		}
		return nil
	})
}

// hasEnded returns nil when the pod has the phase, and its container has run
// once and ended the way of that phase.
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
