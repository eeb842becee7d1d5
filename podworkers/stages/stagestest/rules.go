package stagestest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/orders"
)

var rules = []rule{
	{"Leftovers names a pod from Prepare until Release has succeeded", namesPods},
	{"Prepare may be repeated", prepareTwice},
	{"Release may be repeated", releaseTwice},
	{"Release needs no Prepare", releaseOnly},
	{"a pod can come back after its release", comesBack},
	{"killed between any two steps", killedBetween},
	{"killed within a step", killedWithin},
	{"pods do not disturb each other", strangers},
	{"pods are prepared and released at the same time", parallel},
	{"a context that has ended ends calls", ended},
	{"a release that hangs holds up nobody else", hangs},
	{"a release that hangs ends with its context", hangEnds},
}

func inTurn(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) holds(pod *v1.Pod) func() error    { return func() error { return t.hold(pod) } }
func (t *trial) releases(pod *v1.Pod) func() error { return func() error { return t.release(pod) } }

func namesPods(t *trial) error {
	pod := t.pod()
	return inTurn(
		func() error { return t.expect(pod, false) },
		t.holds(pod),
		t.open, // from the state, not from the agent's memory
		func() error { return t.expect(pod, true) },
		t.releases(pod),
		t.open,
		func() error { return t.expect(pod, false) },
	)
}

func prepareTwice(t *trial) error {
	pod := t.pod()
	return inTurn(t.holds(pod), t.holds(pod), t.releases(pod))
}

func releaseTwice(t *trial) error {
	pod := t.pod()
	return inTurn(t.holds(pod), t.releases(pod), t.releases(pod))
}

func releaseOnly(t *trial) error { return t.release(t.pod()) }

func comesBack(t *trial) error {
	pod := t.pod()
	return inTurn(t.holds(pod), t.releases(pod), t.holds(pod), t.releases(pod))
}

// killedBetween runs every sequence of a few steps.
func killedBetween(t *trial) error {
	cut, cancel := context.WithCancel(t.ctx)
	cancel()
	steps := []orders.Step[*v1.Pod]{
		{Name: "prepare", Play: t.hold},
		{Name: "release", Play: t.release},
		{Name: "kill", Play: func(*v1.Pod) error { return t.open() }, Kill: true},
		// With a context that is done, a step may do all of its work, a part, or no work.
		{Name: "prepare, cancelled", Play: func(pod *v1.Pod) error { _ = t.stage.Prepare(cut, pod); return t.expectNamed(pod) }},
		{Name: "release, cancelled", Play: func(pod *v1.Pod) error {
			if t.stage.Release(cut, pod.UID) == nil {
				return t.expect(pod, false)
			}
			return t.expectNamed(pod)
		}},
	}
	return orders.Each(steps, 4, t.pod, func(pod *v1.Pod, _ string) error { return inTurn(t.open, t.releases(pod)) })
}

func killedWithin(t *trial) error {
	for _, name := range slices.Sorted(maps.Keys(t.Halfway)) {
		released, prepared := t.pod(), t.pod()
		err := inTurn(
			func() error { return errors.Join(t.Halfway[name](released), t.Halfway[name](prepared)) },
			t.open,
			func() error { return errors.Join(t.expectNamed(released), t.expectNamed(prepared)) },
			t.releases(released),
			t.holds(prepared), t.releases(prepared),
		)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func strangers(t *trial) error {
	a, b := t.pod(), t.pod()
	return inTurn(
		t.holds(a),
		func() error { return t.expect(b, false) },
		t.holds(b), t.releases(a),
		func() error { return t.expect(b, true) },
		t.holds(a), t.releases(b),
		func() error { return t.expect(a, true) },
		t.releases(a),
	)
}

// parallel prepares and releases pods in parallel.
func parallel(t *trial) error {
	const pods, rounds = 8, 5
	errs := make([]error, pods)
	var wg sync.WaitGroup
	for i := range pods {
		pod := t.pod()
		wg.Go(func() {
			for range rounds {
				if errs[i] = inTurn(t.holds(pod), t.releases(pod)); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// soon calls a method and fails if it does not return in time.
func soon(what string, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return fmt.Errorf("%s did not return within %v", what, patience)
	}
}

func ended(t *trial) error {
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	pod := t.pod()
	for what, f := range map[string]func() error{
		"prepare":   func() error { return t.stage.Prepare(ctx, pod) },
		"release":   func() error { return t.stage.Release(ctx, pod.UID) },
		"leftovers": func() error { _, err := t.stage.Leftovers(ctx); return err },
	} {
		// The stage may succeed or fail; it must only return.
		if err := soon(what, func() error { _ = f(); return nil }); err != nil {
			return err
		}
	}
	return t.release(pod)
}

// hanging makes the release of a pod hang, and calls f meanwhile.
func (t *trial) hanging(pod *v1.Pod, f func(end context.CancelFunc, done <-chan error) error) error {
	if err := t.hold(pod); err != nil {
		return err
	}
	unblock := t.Block(pod.UID)
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	done := make(chan error, 1)
	var release sync.WaitGroup
	release.Go(func() { done <- t.stage.Release(ctx, pod.UID) })
	err := f(cancel, done)
	unblock()
	return errors.Join(err, soon("the release that hung", func() error { release.Wait(); return nil }))
}

func hangs(t *trial) error {
	if t.Block == nil {
		return nil
	}
	stuck, other := t.pod(), t.pod()
	if err := t.hold(other); err != nil {
		return err
	}
	return t.hanging(stuck, func(_ context.CancelFunc, done <-chan error) error {
		select {
		case err := <-done:
			return fmt.Errorf("the release that hangs returned: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
		return soon("another pod's call", func() error {
			return inTurn(
				func() error { return t.expect(stuck, true) },
				t.releases(other), t.holds(other), t.releases(other),
			)
		})
	})
}

func hangEnds(t *trial) error {
	if t.Block == nil {
		return nil
	}
	pod := t.pod()
	err := t.hanging(pod, func(end context.CancelFunc, done <-chan error) error {
		end()
		select {
		case <-done:
			return t.expectNamed(pod)
		case <-time.After(patience):
			return fmt.Errorf("the release that hangs did not return within %v after its context had ended", patience)
		}
	})
	if err != nil {
		return err
	}
	return t.release(pod)
}
