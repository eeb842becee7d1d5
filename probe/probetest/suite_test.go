package probetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/probe"
)

// proberFunc is a Prober whose behaviour is in the output of the container's name: "up", "down",
// "hung" or "broken".
type proberFunc func(ctx context.Context, t probe.Target) (probe.Result, error)

func (f proberFunc) Probe(ctx context.Context, t probe.Target) (probe.Result, error) {
	return f(ctx, t)
}

func correct(ctx context.Context, t probe.Target) (probe.Result, error) {
	switch t.Container.Name {
	case "down":
		return probe.Result{Verdict: probe.Failure}, nil
	case "broken":
		return probe.Result{}, errors.New("no port")
	case "hung":
		<-ctx.Done()
		return probe.Result{Verdict: probe.Failure}, nil
	}
	return probe.Result{Verdict: probe.Success}, nil
}

func subjectOf(f proberFunc) Subject {
	target := func(name string) probe.Target {
		return probe.Target{Pod: &v1.Pod{}, Container: &v1.Container{Name: name}, Probe: &v1.Probe{}, Timeout: time.Second}
	}
	hung, broken := target("hung"), target("broken")
	return Subject{Prober: f, Healthy: target("up"), Failing: target("down"), Hung: &hung, Broken: &broken}
}

func TestRun(t *testing.T) {
	Run(t, func(*testing.T) Subject { return subjectOf(correct) })
	Run(t, func(*testing.T) Subject { // the scripted Prober
		p, s := &Prober{}, subjectOf(nil)
		p.Script("down", probe.Readiness, Step{Verdict: probe.Failure})
		p.Script("hung", probe.Readiness, Step{Latency: time.Hour})
		p.Script("broken", probe.Readiness, Step{Err: errors.New("no port")})
		s.Prober = p
		for _, target := range []*probe.Target{&s.Healthy, &s.Failing, s.Hung, s.Broken} {
			target.Type = probe.Readiness
			target.Pod.UID = "1"
		}
		return s
	})
}

// Each planted defect violates its rule.
func TestSuiteFindsDefects(t *testing.T) {
	var shared atomic.Pointer[v1.Container]
	for rule, defect := range map[string]proberFunc{
		"a healthy target is a Success": func(context.Context, probe.Target) (probe.Result, error) {
			return probe.Result{Verdict: probe.Failure}, nil
		},
		"a failing target is a Failure without an error": func(_ context.Context, t probe.Target) (probe.Result, error) {
			return probe.Result{}, errors.New("down")
		},
		"a probe that cannot be carried out is an error": func(context.Context, probe.Target) (probe.Result, error) {
			return probe.Result{Verdict: probe.Failure}, nil
		},
		"a hung target is a Failure at the end of the context, without an error": func(ctx context.Context, t probe.Target) (probe.Result, error) {
			<-ctx.Done()
			return probe.Result{}, ctx.Err()
		},
		"a call returns soon after the cancellation of its context": func(ctx context.Context, t probe.Target) (probe.Result, error) {
			time.Sleep(min(t.Timeout, time.Minute)) // instead of the context
			return probe.Result{Verdict: probe.Failure}, nil
		},
		"a call with an ended context returns": func(context.Context, probe.Target) (probe.Result, error) {
			time.Sleep(5 * time.Second)
			return probe.Result{Verdict: probe.Success}, nil
		},
		"concurrent calls have their own results": func(ctx context.Context, t probe.Target) (probe.Result, error) {
			shared.Store(t.Container)
			time.Sleep(time.Millisecond)
			return correct(ctx, probe.Target{Container: shared.Load()})
		},
		"targets are not changed": func(_ context.Context, t probe.Target) (probe.Result, error) {
			t.Probe.TimeoutSeconds++
			return probe.Result{Verdict: probe.Success}, nil
		},
	} {
		t.Run(rule, func(t *testing.T) {
			found := false
			for _, r := range suiteRules {
				if r.name != rule {
					continue
				}
				found = true
				synctest.Test(t, func(t *testing.T) {
					require.NoError(t, try(t.Context(), r, subjectOf(correct)))
					err := try(t.Context(), r, subjectOf(defect))
					require.Error(t, err)
					require.NotContains(t, err.Error(), "%!")
				})
			}
			require.True(t, found)
		})
	}
	panics := func(context.Context, probe.Target) (probe.Result, error) { panic("oops") }
	for _, r := range suiteRules {
		require.ErrorContains(t, try(t.Context(), r, subjectOf(panics)), "oops", r.name)
		require.ErrorContains(t, try(t.Context(), r, Subject{Prober: proberFunc(correct)}), "Subject.Healthy", r.name)
	}
}
