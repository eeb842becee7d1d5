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
	{"Leftovers names a pod from Prepare until Release has succeeded", leftoversNamePods},
	{"Prepare may be repeated", prepareTwice},
	{"Release may be repeated", releaseTwice},
	{"Release needs no Prepare", releaseOnly},
	{"a pod can come back after its release", preparedAgain},
	{"killed between any two steps", killedBetween},
	{"killed within a step", killedWithin},
	{"pods do not disturb each other", independentPods},
	{"pods are prepared and released in parallel", parallel},
	{"calls return when their context is done", ended},
	{"a hung release does not delay other pods", hungRelease},
	{"a hung release returns when its context is done", cancelledRelease},
}

func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) prepares(pod *v1.Pod) func() error {
	return func() error { return t.prepareAndUse(pod) }
}
func (t *trial) releases(pod *v1.Pod) func() error { return func() error { return t.release(pod) } }

func leftoversNamePods(t *trial) error {
	pod := t.pod()
	return inOrder(
		func() error { return t.expect(pod, false) },
		t.prepares(pod),
		t.open, // from the state, not from the agent's memory
		func() error { return t.expect(pod, true) },
		t.releases(pod),
		t.open,
		func() error { return t.expect(pod, false) },
	)
}

func prepareTwice(t *trial) error {
	pod := t.pod()
	return inOrder(t.prepares(pod), t.prepares(pod), t.releases(pod))
}

func releaseTwice(t *trial) error {
	pod := t.pod()
	return inOrder(t.prepares(pod), t.releases(pod), t.releases(pod))
}

func releaseOnly(t *trial) error { return t.release(t.pod()) }

func preparedAgain(t *trial) error {
	pod := t.pod()
	return inOrder(t.prepares(pod), t.releases(pod), t.prepares(pod), t.releases(pod))
}

// killedBetween runs every sequence of a few steps.
func killedBetween(t *trial) error {
	cut, cancel := context.WithCancel(t.ctx)
	cancel()
	steps := []orders.Step[*v1.Pod]{
		{Name: "prepare", Play: t.prepareAndUse},
		{Name: "release", Play: t.release},
		{Name: "kill", Play: func(*v1.Pod) error { return t.open() }, Kill: true},
		// With a context that is done, a step may do all of its work, a part, or no work.
		{Name: "prepare, cancelled", Play: func(pod *v1.Pod) error { _ = t.stage.Prepare(cut, pod); return t.expectLeftover(pod) }},
		{Name: "release, cancelled", Play: func(pod *v1.Pod) error {
			if t.stage.Release(cut, pod.UID) == nil {
				return t.expect(pod, false)
			}
			return t.expectLeftover(pod)
		}},
	}
	begin := func() *v1.Pod {
		t.calls.begin()
		return t.pod()
	}
	return orders.Each(steps, 4, begin, func(pod *v1.Pod, _ string) error { return inOrder(t.open, t.releases(pod)) })
}

func killedWithin(t *trial) error {
	for _, name := range slices.Sorted(maps.Keys(t.Halfway)) {
		released, prepared := t.pod(), t.pod()
		err := inOrder(
			func() error {
				t.calls.add(name, released.UID)
				t.calls.add(name, prepared.UID)
				return errors.Join(t.Halfway[name](released), t.Halfway[name](prepared))
			},
			t.open,
			func() error { return errors.Join(t.expectLeftover(released), t.expectLeftover(prepared)) },
			t.releases(released),
			t.prepares(prepared), t.releases(prepared),
		)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func independentPods(t *trial) error {
	a, b := t.pod(), t.pod()
	return inOrder(
		t.prepares(a),
		func() error { return t.expect(b, false) },
		t.prepares(b), t.releases(a),
		func() error { return t.expect(b, true) },
		t.prepares(a), t.releases(b),
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
				if errs[i] = inOrder(t.prepares(pod), t.releases(pod)); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// withinTimeout calls a method and fails if it does not return in time.
func withinTimeout(what string, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(callTimeout):
		return fmt.Errorf("%s did not return within %v", what, callTimeout)
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
		if err := withinTimeout(what, func() error { _ = f(); return nil }); err != nil {
			return err
		}
	}
	return t.release(pod)
}

// whileHung makes the release of a pod hang, and calls f meanwhile.
func (t *trial) whileHung(pod *v1.Pod, f func(end context.CancelFunc, done <-chan error) error) error {
	if err := t.prepareAndUse(pod); err != nil {
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
	return errors.Join(err, withinTimeout("the hung release", func() error { release.Wait(); return nil }))
}

func hungRelease(t *trial) error {
	if t.Block == nil {
		return nil
	}
	stuck, other := t.pod(), t.pod()
	if err := t.prepareAndUse(other); err != nil {
		return err
	}
	return t.whileHung(stuck, func(_ context.CancelFunc, done <-chan error) error {
		select {
		case err := <-done:
			return fmt.Errorf("the hung release returned (error: %v)", err)
		case <-time.After(10 * time.Millisecond):
		}
		return withinTimeout("another pod's call", func() error {
			return inOrder(
				func() error { return t.expect(stuck, true) },
				t.releases(other), t.prepares(other), t.releases(other),
			)
		})
	})
}

func cancelledRelease(t *trial) error {
	if t.Block == nil {
		return nil
	}
	pod := t.pod()
	err := t.whileHung(pod, func(end context.CancelFunc, done <-chan error) error {
		end()
		select {
		case <-done:
			return t.expectLeftover(pod)
		case <-time.After(callTimeout):
			return fmt.Errorf("the hung release did not return within %v after its context was done", callTimeout)
		}
	})
	if err != nil {
		return err
	}
	return t.release(pod)
}
