package lifecycletest

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/podworkerstest"
)

// subject returns the agent with its views. The programs run until they are stopped or receive an
// exit code.
func subject() (podworkerstest.Subject, *agent) {
	exits := make(chan exitCode)
	run := func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case code := <-exits:
			if code == 0 {
				return nil
			}
			return code
		}
	}
	a := newAgent(map[string]program{"v1": run, "v2": run})
	return podworkerstest.Subject{
		Syncer: a, Running: a.running, Status: a.status, Held: a.held,
		Exit: func(uid types.UID, code int32) {
			if ids, _ := a.running(uid); len(ids) > 0 {
				exits <- exitCode(code)
				synctest.Wait()
			}
		},
	}, a
}

// The agent violates no rule in the standard lives of pods.
func TestStandardLives(t *testing.T) {
	podworkerstest.Run(t, func(*testing.T) podworkerstest.Subject {
		s, _ := subject()
		return s
	})
}

// bugs are mistakes that an agent can have, by the rule that finds them. Each changes the views or
// one call of the correct agent.
var bugs = map[string]func(a *agent, s *podworkerstest.Subject, f *podworkers.SyncerFuncs){
	"INV-20": func(a *agent, _ *podworkerstest.Subject, f *podworkers.SyncerFuncs) { // it writes to the pod
		f.Sync = func(ctx context.Context, w podworkers.Work) (bool, error) {
			w.Pod.Status.Phase = v1.PodRunning
			return a.SyncPod(ctx, w)
		}
	},
	"INV-1": func(a *agent, _ *podworkerstest.Subject, f *podworkers.SyncerFuncs) { // it starts after the call
		f.Sync = func(ctx context.Context, w podworkers.Work) (bool, error) {
			if a.job(w.Pod.UID) == nil {
				time.AfterFunc(time.Second, func() { _, _ = a.SyncPod(context.WithoutCancel(ctx), w) })
				return false, nil
			}
			return a.SyncPod(ctx, w)
		}
	},
	"INV-8": func(a *agent, _ *podworkerstest.Subject, f *podworkers.SyncerFuncs) { // it does not wait for the end
		f.Terminating = func(_ context.Context, w podworkers.Work) error {
			time.AfterFunc(time.Second, a.job(w.Pod.UID).stop)
			return nil
		}
	},
	"slow-stop": func(a *agent, _ *podworkerstest.Subject, f *podworkers.SyncerFuncs) { // it ignores the grace period
		f.Terminating = func(ctx context.Context, w podworkers.Work) error {
			time.Sleep(time.Minute)
			return a.SyncTerminatingPod(ctx, w)
		}
	},
	"1.7": func(a *agent, _ *podworkerstest.Subject, f *podworkers.SyncerFuncs) { // it ignores its cancelled context
		f.Sync = func(ctx context.Context, w podworkers.Work) (bool, error) {
			time.Sleep(20 * time.Second)
			return a.SyncPod(ctx, w)
		}
	},
	"restart-policy": func(a *agent, _ *podworkerstest.Subject, f *podworkers.SyncerFuncs) { // it always restarts
		f.Sync = func(ctx context.Context, w podworkers.Work) (bool, error) {
			w.Pod = w.Pod.DeepCopy()
			w.Pod.Spec.RestartPolicy = v1.RestartPolicyAlways
			return a.SyncPod(ctx, w)
		}
	},
	"stale-pod": func(a *agent, _ *podworkerstest.Subject, f *podworkers.SyncerFuncs) { // it keeps the first version
		var first *v1.Pod
		f.Sync = func(ctx context.Context, w podworkers.Work) (bool, error) {
			if first == nil {
				first = w.Pod
			}
			w.Pod = first
			return a.SyncPod(ctx, w)
		}
	},
	"exit-code": func(a *agent, s *podworkerstest.Subject, _ *podworkers.SyncerFuncs) { // a restart loses the last exit
		s.Status = func(uid types.UID) *v1.PodStatus {
			status := a.status(uid)
			if status != nil {
				status.ContainerStatuses[0].LastTerminationState = v1.ContainerState{}
			}
			return status
		}
	},
	"resource-kept": func(_ *agent, _ *podworkerstest.Subject, f *podworkers.SyncerFuncs) { // it keeps the job
		f.Terminated = func(context.Context, podworkers.Work) error { return nil }
	},
}

// Nine planted bugs are reported, each by the name of its rule.
func TestPlantedBugs(t *testing.T) {
	require.Len(t, bugs, 9)
	synctest.Test(t, func(t *testing.T) {
		s, a := subject()
		require.NoError(t, oneLife(t, s, a), "without a bug")
	})
	for rule, plant := range bugs {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, a := subject()
				f := podworkers.SyncerFuncs{Sync: a.SyncPod, Terminating: a.SyncTerminatingPod, Terminated: a.SyncTerminatedPod}
				plant(a, &s, &f)
				s.Syncer = f
				err := oneLife(t, s, a)
				require.ErrorContains(t, err, "["+rule+":")
				t.Log(strings.SplitN(err.Error(), "\n", 2)[0])
			})
		})
	}
}

// oneLife plays the lives of two pods, with an exit, an update and a kill, and returns the violated
// rules. Virtual time: five minutes.
func oneLife(t *testing.T, s podworkerstest.Subject, a *agent) error {
	cfg := podworkers.Config{Syncer: s.Syncer}
	rec := podworkerstest.Record(&cfg)
	rec.CancelLimit(time.Second)
	rec.Running(s.Running)
	rec.Status(s.Status)
	rec.Held(s.Held)
	workers, err := podworkers.New(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- a.run(ctx, workers) }()
	send := func(kind podworkers.UpdateType, pod *v1.Pod, wait time.Duration) {
		require.NoError(t, workers.UpdatePod(podworkers.Update{Type: kind, Pod: pod}))
		time.Sleep(wait)
	}

	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyOnFailure, v1.RestartPolicyNever} {
		version := func(generation int64, image string) *v1.Pod {
			p := pod(string(policy), image)
			p.Generation, p.Spec.RestartPolicy = generation, policy
			return p
		}
		p := version(1, "v1")
		send(podworkers.UpdateCreate, p, 30*time.Second)
		send(podworkers.UpdateSync, p, 30*time.Second)
		s.Exit(p.UID, 3)
		send(podworkers.UpdateSync, p, time.Minute)
		p = version(2, "v2")
		send(podworkers.UpdateUpdate, p, 30*time.Second)
		_ = rec.Check(workers) // reads the views
		send(podworkers.UpdateSync, p, time.Second)
		send(podworkers.UpdateKill, p, 30*time.Second)
	}
	workers.SyncKnownPods(nil)
	synctest.Wait()
	stop()
	require.NoError(t, <-ran)
	return rec.Check(workers)
}
