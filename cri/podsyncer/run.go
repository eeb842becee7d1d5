package podsyncer

import (
	"context"
	"errors"
	"fmt"

	"github.com/podwright/podwright/internal/run"
)

// ErrAlreadyRun is returned by a second Run.
var ErrAlreadyRun = errors.New("podsyncer: Run was called before")

// Run observes the runtime, probes containers and releases what pods have left, until
// ctx ends. It leaves the pods running. It works once, then it is ErrAlreadyRun.
//
// Workers and loop ask the Syncer, so they are to be stopped before it: see RunWith.
func (s *Syncer) Run(ctx context.Context) error { return s.RunWith(ctx) }

// RunWith is Run together with what stands above the Syncer: the Run methods of
// workers, loop and whatever else belongs to the agent. When ctx ends, or one of them
// does, the others are stopped first, then the Syncer.
func (s *Syncer) RunWith(ctx context.Context, above ...func(context.Context) error) error {
	if s.ran.Swap(true) {
		return ErrAlreadyRun
	}
	ctx, stopActing := context.WithCancel(ctx)
	defer stopActing()
	below, stopObserving := context.WithCancel(context.WithoutCancel(ctx))
	defer stopObserving()
	observing := make(chan error, 1)
	go func() { observing <- run.All(below, ending(stopActing, s.observer.Run), ending(stopActing, s.write)) }()
	acting := append([]func(context.Context) error{s.probes.Run, s.sinks.Run, s.releaser.Run, s.pruner.Run, s.collector.Run}, above...)
	err := run.All(ctx, acting...)
	stopObserving()
	err = errors.Join(err, <-observing)
	if names := s.pods.Overdue(); len(names) > 0 {
		err = errors.Join(err, fmt.Errorf("podsyncer: preStop handlers that ignore the end of their context: %v", names))
	}
	return err
}

// ending calls stop when a part ends, before the others that run beside it are told to.
func ending(stop func(), part func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		defer stop()
		return part(ctx)
	}
}
