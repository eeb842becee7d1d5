package podsyncer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
)

var (
	// ErrAlreadyRun is returned by the second call of Run.
	ErrAlreadyRun = fields.AlreadyRun("podsyncer")
	// ErrShutdownTimeout is wrapped by the error of Run if calls did not return in time.
	ErrShutdownTimeout = run.ErrShutdownTimeout
)

// Run runs the loop, the workers and all other parts until ctx is done. It leaves the pods running.
// It returns nil, or an error that lists the calls that did not return within ShutdownTimeout and
// wraps ErrShutdownTimeout. A second Run returns ErrAlreadyRun. If another process with the same
// Pods.Owner uses the runtime, the error wraps cri.ErrOwnerInUse.
func (s *Syncer) Run(ctx context.Context) error { return s.RunWith(ctx) }

// RunWith is Run with further parts: the Run methods of the agent's own components. When ctx is
// done or a part returns, also without an error, it first stops all parts that act on pods, then
// the observer of the runtime and the writer of statuses. It waits for all parts, the further ones
// without a limit, and returns their joined errors.
func (s *Syncer) RunWith(ctx context.Context, parts ...func(context.Context) error) error {
	if s.ran.Swap(true) {
		return ErrAlreadyRun
	}
	lock, err := s.lockOwner()
	if err != nil {
		return fmt.Errorf("podsyncer: %w", err)
	}
	if lock != nil {
		defer lock.Close()
	}
	ctx, stopActing := context.WithCancel(ctx)
	defer stopActing()
	below, stopObserving := context.WithCancel(context.WithoutCancel(ctx))
	defer stopObserving()
	observing := make(chan error, 1)
	go func() { observing <- run.All(below, ending(stopActing, s.observer.Run), ending(stopActing, s.write)) }()
	<-s.observer.Runs() // a worker's first call would fail before
	acting := []func(context.Context) error{
		s.probes.Run, s.releaser.Run, s.workers.Run, s.loop.Run,
		s.bounded("removing finished pods from status sinks", s.sinks.Run),
		s.bounded("removing dead containers", s.pruner.Run),
		s.bounded("garbage collection", s.collector.Run),
	}
	err = run.All(ctx, append(acting, parts...)...)
	stopObserving()
	err = errors.Join(err, <-observing)
	if names := s.pods.Overdue(); len(names) > 0 {
		err = errors.Join(err, fmt.Errorf("podsyncer: %w: preStop handlers that ignore their cancelled context: %v", ErrShutdownTimeout, names))
	}
	return err
}

// bounded is part with a limit for its end after ctx is done.
func (s *Syncer) bounded(name string, part func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		result := make(chan error, 1)
		go func() { result <- part(ctx) }()
		select {
		case err := <-result:
			return err
		case <-ctx.Done():
		}
		select {
		case err := <-result:
			return err
		case <-time.After(s.cfg.ShutdownTimeout):
			return run.StillRunning("podsyncer", s.cfg.ShutdownTimeout, []string{name})
		}
	}
}

// ending calls stop when part returns, before the parts beside it are cancelled.
func ending(stop func(), part func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		defer stop()
		return part(ctx)
	}
}
