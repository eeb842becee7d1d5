package probetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/podwright/podwright/probe"
)

// Subject is a probe.Prober under test, with a Target for each behaviour of a container.
type Subject struct {
	Prober probe.Prober
	// Healthy is a Target whose probe succeeds, Failing one whose probe fails. Both are required.
	Healthy, Failing probe.Target
	// Hung is a Target that does not respond. Optional: without it its rules are skipped.
	Hung *probe.Target
	// Broken is a Target whose probe cannot be carried out, such as one with an unknown named port.
	// Optional: without it its rule is skipped.
	Broken *probe.Target
}

// late is the longest time of a call after the end of its context.
const late = time.Second

// longest bounds a call that the suite does not cancel.
const longest = 10 * time.Second

type suiteRule struct {
	name  string
	check func(ctx context.Context, s Subject) error
}

var suiteRules = []suiteRule{
	{"a healthy target is a Success", func(ctx context.Context, s Subject) error { return verdict(ctx, s, s.Healthy, probe.Success) }},
	{"a failing target is a Failure without an error", func(ctx context.Context, s Subject) error { return verdict(ctx, s, s.Failing, probe.Failure) }},
	{"a probe that cannot be carried out is an error", broken},
	{"a hung target is a Failure at the end of the context, without an error", hungIsFailure},
	{"a call returns soon after the cancellation of its context", cancelled},
	{"a call with an ended context returns", endedContext},
	{"concurrent calls have their own results", concurrent},
	{"targets are not changed", unchanged},
}

// Run tests a Prober, with one subtest per rule of probe.Prober. newSubject is called for each rule.
func Run(t *testing.T, newSubject func(t *testing.T) Subject) {
	for _, r := range suiteRules {
		t.Run(r.name, func(t *testing.T) {
			switch err := try(t.Context(), r, newSubject(t)); {
			case errors.Is(err, errNoTarget):
				t.Skip(err)
			case err != nil:
				t.Error(err)
			}
		})
	}
}

var errNoTarget = errors.New("the Subject has no target for this rule")

// try checks a rule. A panic of the Prober is an error.
func try(ctx context.Context, r suiteRule, s Subject) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("Probe panicked: %v", p)
		}
	}()
	if s.Prober == nil || reflect.ValueOf(s.Healthy).IsZero() || reflect.ValueOf(s.Failing).IsZero() {
		return errors.New("probetest: Subject.Prober, Subject.Healthy and Subject.Failing are required")
	}
	return r.check(ctx, s)
}

func verdict(ctx context.Context, s Subject, target probe.Target, want probe.Verdict) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	result, err := s.Prober.Probe(ctx, target)
	switch {
	case err != nil:
		return fmt.Errorf("Probe returned an error instead of %v: %w", want, err)
	case result.Verdict != want:
		return fmt.Errorf("Probe returned %v instead of %v (output %q)", result.Verdict, want, result.Output)
	}
	return nil
}

func broken(ctx context.Context, s Subject) error {
	if s.Broken == nil {
		return errNoTarget
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	if result, err := s.Prober.Probe(ctx, *s.Broken); err == nil {
		return fmt.Errorf("Probe returned %v without an error", result.Verdict)
	}
	return nil
}

func hungIsFailure(ctx context.Context, s Subject) error {
	if s.Hung == nil {
		return errNoTarget
	}
	target := *s.Hung
	target.Timeout = time.Second
	ctx, cancel := context.WithTimeout(ctx, target.Timeout)
	defer cancel()
	result, after, err := call(ctx, s, target)
	switch {
	case after > late:
		return fmt.Errorf("Probe returned %v after the end of its context", after.Round(time.Millisecond))
	case err != nil:
		return fmt.Errorf("Probe returned an error instead of %v: %w", probe.Failure, err)
	case result.Verdict != probe.Failure:
		return fmt.Errorf("Probe returned %v instead of %v", result.Verdict, probe.Failure)
	}
	return nil
}

func cancelled(ctx context.Context, s Subject) error {
	if s.Hung == nil {
		return errNoTarget
	}
	target := *s.Hung
	target.Timeout = time.Hour
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(100*time.Millisecond, cancel).Stop()
	_, after, _ := call(ctx, s, target)
	return inTime(after)
}

func endedContext(ctx context.Context, s Subject) error {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	_, after, _ := call(ctx, s, s.Healthy)
	return inTime(after)
}

func inTime(after time.Duration) error {
	if after > late {
		return fmt.Errorf("Probe returned %v after the end of its context", after.Round(time.Millisecond))
	}
	return nil
}

// call calls Probe and returns the time from the end of the context to the return.
func call(ctx context.Context, s Subject, target probe.Target) (_ probe.Result, after time.Duration, _ error) {
	ended := make(chan time.Time, 1)
	defer context.AfterFunc(ctx, func() { ended <- time.Now() })()
	result, err := s.Prober.Probe(ctx, target)
	now := time.Now()
	if ctx.Err() != nil {
		after = max(now.Sub(<-ended), 0)
	}
	return result, after, err
}

func concurrent(ctx context.Context, s Subject) error {
	const calls = 20
	errs := make([]error, calls)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					errs[i] = fmt.Errorf("Probe panicked: %v", p)
				}
			}()
			if i%2 == 0 {
				errs[i] = verdict(ctx, s, s.Healthy, probe.Success)
			} else {
				errs[i] = verdict(ctx, s, s.Failing, probe.Failure)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func unchanged(ctx context.Context, s Subject) error {
	for _, target := range []probe.Target{s.Healthy, s.Failing} {
		pod, container, spec := target.Pod.DeepCopy(), target.Container.DeepCopy(), target.Probe.DeepCopy()
		ctx, cancel := context.WithTimeout(ctx, longest)
		_, _ = s.Prober.Probe(ctx, target) // another rule checks the result
		cancel()
		if !equality.Semantic.DeepEqual(pod, target.Pod) || !equality.Semantic.DeepEqual(container, target.Container) || !equality.Semantic.DeepEqual(spec, target.Probe) {
			return errors.New("Probe changed its target")
		}
	}
	return nil
}
