package script

import (
	"context"
	"time"

	"github.com/podwright/podwright/cri/fake"
)

// Programs makes containers run as the script's rules about runs say: the first
// rule that fires decides. Containers that no rule is about, and commands that run
// in containers, get otherwise; nil is a program that sleeps until it is stopped.
// The result counts on its own. With a
// script that is not valid every start fails, with what is wrong.
//
// A program that only takes its time is ended by its stop signal, with code 128
// plus the signal's number, like a program that does not handle signals; one that
// hangs or waits until it is stopped handles them. Behind the last step it exits
// with code 0.
func (s Script) Programs(otherwise fake.Resolver) fake.Resolver {
	if err := s.Validate(); err != nil {
		return func(context.Context, *fake.Process) (fake.Program, error) { return nil, err }
	}
	if otherwise == nil {
		otherwise = fake.Always(fake.SleepUntilStopped)
	}
	matcher := newMatcher(s)
	return func(ctx context.Context, p *fake.Process) (fake.Program, error) {
		if p.Exec {
			return otherwise(ctx, p)
		}
		object := processObject(p)
		steps := matcher.decide(Run, &object).steps
		if steps == nil {
			return otherwise(ctx, p)
		}
		if last := steps[len(steps)-1]; last.Kind == KindFail {
			return nil, failStart(ctx, steps)
		}
		if kind := steps[0].Kind; kind == KindHang || kind == KindUntilStopped {
			p.Signals() // before the container can be stopped
		}
		return programOf(steps), nil
	}
}

func processObject(p *fake.Process) Object {
	return Object{
		Kind: ContainerKind, Container: p.Container.Name, Attempt: p.Container.Attempt, Image: p.Container.Image,
		Namespace: p.Pod.Namespace, Pod: p.Pod.Name, UID: p.Pod.UID,
	}
}

// failStart takes the time of a start that fails, and its error.
func failStart(ctx context.Context, steps []Step) error {
	for _, step := range steps {
		if step.Kind == KindFail {
			return fault(Run, step)
		}
		if err := wait(ctx, step.Min); err != nil {
			return err
		}
	}
	return nil
}

// programOf is a program that takes steps.
func programOf(steps []Step) fake.Program {
	return func(ctx context.Context, p *fake.Process) int {
		for _, step := range steps {
			if step.Kind == KindExit {
				return exit(p, step)
			}
			if !runStep(ctx, p, step) {
				return 0 // killed: the signal gives the code
			}
		}
		return 0
	}
}

// runStep tells whether the program still lives.
func runStep(ctx context.Context, p *fake.Process, step Step) bool {
	switch {
	case step.Kind == KindUntilStopped:
		select {
		case <-p.Signals():
			return true
		case <-ctx.Done():
			return false
		}
	case step.Kind == KindHang && step.Min == 0:
		p.Signals()
		<-ctx.Done()
		return false
	case step.Kind == KindHang:
		p.Signals()
	}
	return sleep(ctx, step.Min)
}

func sleep(ctx context.Context, d time.Duration) bool {
	return wait(ctx, d) == nil && ctx.Err() == nil
}

func exit(p *fake.Process, step Step) int {
	if step.Reason == reasonOOMKilled {
		p.OOMKilled()
	}
	p.Explain(step.Reason, step.Text)
	return int(step.Exit)
}
