package statustest

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/status"
)

// settle is the time after a call during which late writes are detected.
const settle = 250 * time.Millisecond

// write passes a status to the sink as package writer does.
func (s *fixture) write(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) error {
	return run.Guard("the sink", func() error {
		if r, ok := s.Sink.(status.Receiver); ok {
			return r.Receive(ctx, s.made[ref], new)
		}
		_, err := s.Sink.Patch(ctx, ref, old, new)
		return err
	})
}

// writeNext writes a status after a failed call, whose outcome is unknown.
func (s *fixture) writeNext(new *v1.PodStatus) error {
	old := first()
	if stores(s.Subject) {
		pod, err := s.Sink.Get(s.ctx, s.ref)
		if err != nil {
			return err
		}
		old = &pod.Status
	}
	return s.write(s.ctx, s.ref, old, new)
}

// remove deletes a pod as package writer does.
func (s *fixture) remove(ref status.Ref) error {
	return run.Guard("the sink", func() error {
		if d, ok := s.Sink.(status.DeletionReceiver); ok {
			return d.ReceiveDeletion(s.ctx, s.made[ref])
		}
		return s.Sink.Delete(s.ctx, ref)
	})
}

// stays checks the pod now and until the sink has settled.
func (s *fixture) stays(check func() error) error {
	for end := time.Now().Add(settle); ; time.Sleep(settle / 10) {
		if err := check(); err != nil || time.Now().After(end) {
			return err
		}
	}
}

func (s *fixture) showsFor(want *v1.PodStatus) error {
	return s.stays(func() error { return shows(s.pod(), want) })
}

// step returns the n-th status of a series.
func step(n int) *v1.PodStatus {
	s := second()
	s.ContainerStatuses[0].RestartCount = int32(n)
	return s
}

// order writes a series. The pod must never show an older status after a newer one.
func order(s *fixture) error {
	const steps = 10
	newest, before := 0, first()
	look := func() error {
		pod := s.pod()
		if pod == nil || len(pod.Status.ContainerStatuses) == 0 {
			return errors.New("the pod or its containers are missing")
		}
		shown := int(pod.Status.ContainerStatuses[0].RestartCount)
		if shown < newest {
			return fmt.Errorf("the pod has status %d of the series after status %d", shown, newest)
		}
		newest = shown
		return nil
	}
	for n := 1; n <= steps; n++ {
		if err := s.write(s.ctx, s.ref, before, step(n)); err != nil {
			return fmt.Errorf("status %d of the series: %w", n, err)
		}
		if err := look(); err != nil {
			return err
		}
		before = step(n)
	}
	if err := s.stays(look); err != nil {
		return err
	}
	return shows(s.pod(), step(steps))
}

func skipStates(s *fixture) error {
	if err := s.write(s.ctx, s.ref, first(), third()); err != nil {
		return fmt.Errorf("the end of a pod that was never shown running: %w", err)
	}
	return shows(s.pod(), third())
}

func unchangedArguments(s *fixture) error {
	old, new, pod := first(), third(), s.made[s.ref].DeepCopy()
	if err := s.write(s.ctx, s.ref, old, new); err != nil {
		return err
	}
	if s.Change != nil {
		s.edit(func(now *v1.PodStatus) { overwrite(now) })
	}
	if !equality.Semantic.DeepEqual(old, first()) || !equality.Semantic.DeepEqual(new, third()) || !equality.Semantic.DeepEqual(pod, s.made[s.ref]) {
		return errors.New("the sink changed its arguments")
	}
	return nil
}

// lateWrite ends the context of a call that waits for the storage.
func lateWrite(s *fixture) error {
	s.Hang(true)
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan error, 1)
	go func() { done <- s.write(ctx, s.ref, first(), second()) }()
	time.Sleep(settle / 5)
	cancel()
	select {
	case err := <-done:
		if err == nil {
			s.Hang(false)
			return errors.New("a call without effect returned no error")
		}
	case <-time.After(ruleTimeout / 3):
		s.Hang(false)
		return errors.New("the call did not return after the end of its context")
	}
	s.Hang(false)
	if err := s.showsFor(first()); err != nil {
		return fmt.Errorf("after a call whose context had ended: %w", err)
	}
	if err := s.writeNext(third()); err != nil {
		return fmt.Errorf("the next call: %w", err)
	}
	return shows(s.pod(), third())
}

func failedWrite(s *fixture) error {
	s.Fail(true)
	err := s.write(s.ctx, s.ref, first(), second())
	s.Fail(false)
	if err == nil {
		return errors.New("the storage refused the status, and the call returned no error")
	}
	return nil
}

// retry writes a newer status after a failed one.
func retry(s *fixture) error {
	s.Fail(true)
	_ = s.write(s.ctx, s.ref, first(), second()) // another rule checks its error
	s.Fail(false)
	if err := s.writeNext(third()); err != nil {
		return fmt.Errorf("a call after a failed one: %w", err)
	}
	return s.showsFor(third())
}

func (s *fixture) absent() error {
	if pod := s.pod(); pod != nil {
		return fmt.Errorf("the deleted pod is there: %s", named(pod))
	}
	return nil
}

func (s *fixture) writeAndRemove() error {
	if err := s.write(s.ctx, s.ref, first(), third()); err != nil {
		return err
	}
	if err := s.remove(s.ref); err != nil {
		return fmt.Errorf("deletion: %w", err)
	}
	return nil
}

func deletedForGood(s *fixture) error {
	if err := s.writeAndRemove(); err != nil {
		return err
	}
	return s.stays(s.absent)
}

func deletedAgain(s *fixture) error {
	if err := s.writeAndRemove(); err != nil {
		return err
	}
	if err := s.remove(s.ref); err != nil {
		return fmt.Errorf("deletion of an unknown pod: %w", err)
	}
	return s.absent()
}

func returned(s *fixture) error {
	if err := s.writeAndRemove(); err != nil {
		return err
	}
	if err := s.write(s.ctx, s.ref, &v1.PodStatus{}, second()); err != nil {
		return fmt.Errorf("a status after the deletion of an earlier pod with the UID: %w", err)
	}
	return s.showsFor(second())
}

func namesake(s *fixture) error {
	newer, err := s.create(s.ref.Name, s.ref.UID+"-2")
	if err != nil {
		return err
	}
	if err := s.write(s.ctx, newer, first(), second()); err != nil {
		return err
	}
	if err := s.remove(s.ref); err != nil {
		return fmt.Errorf("deletion: %w", err)
	}
	return s.showsFor(second())
}
