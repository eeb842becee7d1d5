package statustest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status"
)

func getCurrent(s *fixture) error {
	for _, value := range []v1.ConditionStatus{v1.ConditionFalse, v1.ConditionTrue} {
		s.edit(func(now *v1.PodStatus) {
			now.Conditions = append(first().Conditions, is("example.com/gate", value, 3))
		})
		pod, err := s.Sink.Get(s.ctx, s.ref)
		switch {
		case err != nil:
			return fmt.Errorf("Get: %w", err)
		case pod == nil || pod.UID != s.ref.UID || pod.Name != s.ref.Name || pod.Namespace != s.ref.Namespace:
			return fmt.Errorf("Get returned another pod: %s", named(pod))
		case podfacts.Condition(pod.Status.Conditions, "example.com/gate") == nil || podfacts.Condition(pod.Status.Conditions, "example.com/gate").Status != value:
			return errors.New("Get returned the pod without an earlier change")
		}
		if err := shows(pod, first()); err != nil {
			return fmt.Errorf("Get: %w", err)
		}
	}
	return nil
}

func getOther(s *fixture) error {
	new, err := s.recreate()
	if err != nil {
		return err
	}
	pod, err := s.Sink.Get(s.ctx, s.ref)
	if err != nil || pod == nil || pod.UID != new.UID {
		return fmt.Errorf("Get with the UID of the previous pod returned %s, %v instead of the pod with the name", named(pod), err)
	}
	return nil
}

func getNone(s *fixture) error {
	missing := status.Ref{Namespace: namespace, Name: "nobody", UID: "uid"}
	if pod, err := s.Sink.Get(s.ctx, missing); !errors.Is(err, status.ErrNotFound) {
		return fmt.Errorf("Get of a missing pod returned %s, %v instead of ErrNotFound", named(pod), err)
	}
	s.Remove(s.ref.Namespace, s.ref.Name)
	if pod, err := s.Sink.Get(s.ctx, s.ref); !errors.Is(err, status.ErrNotFound) {
		return fmt.Errorf("Get of a removed pod returned %s, %v instead of ErrNotFound", named(pod), err)
	}
	return nil
}

func (s *fixture) patch(states ...*v1.PodStatus) (pod *v1.Pod, err error) {
	before := first()
	for _, next := range states {
		if pod, err = s.Sink.Patch(s.ctx, s.ref, before, next); err != nil {
			return nil, fmt.Errorf("Patch: %w", err)
		}
		before = next
	}
	return pod, nil
}

func writes(s *fixture) error {
	before := first()
	for _, next := range []*v1.PodStatus{second(), third()} {
		if err := s.write(s.ctx, s.ref, before, next); err != nil {
			return err
		}
		if err := shows(s.pod(), next); err != nil {
			return err
		}
		before = next
	}
	return nil
}

func patchRemoves(s *fixture) error {
	bare := &v1.PodStatus{Phase: v1.PodFailed, Reason: "NodeAffinity", Message: "rejected", QOSClass: first().QOSClass}
	if _, err := s.patch(bare); err != nil {
		return err
	}
	return shows(s.pod(), bare)
}

func patchReturns(s *fixture) error {
	s.edit(func(now *v1.PodStatus) {
		now.Conditions = append(now.Conditions, is("example.com/gate", v1.ConditionTrue, 3))
	})
	before := s.pod()
	pod, err := s.Sink.Patch(s.ctx, s.ref, first(), second())
	if err != nil {
		return fmt.Errorf("Patch: %w", err)
	}
	if err := shows(pod, second()); err != nil {
		return fmt.Errorf("pod returned by Patch: %w", err)
	}
	if podfacts.Condition(pod.Status.Conditions, "example.com/gate") == nil {
		return errors.New("the pod returned by Patch lacks a condition that another component added")
	}
	if pod.UID != s.ref.UID || pod.Name != s.ref.Name || pod.Namespace != s.ref.Namespace {
		return fmt.Errorf("Patch returned another pod: %s", named(pod))
	}
	older, errOlder := strconv.ParseUint(before.ResourceVersion, 10, 64)
	newer, errNewer := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	if errOlder == nil && errNewer == nil && newer <= older {
		return fmt.Errorf("the resource version did not increase with the patch: it was %d and is %d", older, newer)
	}
	return nil
}

func patchKeepsConditions(s *fixture) error {
	gate := func(value v1.ConditionStatus) func(*v1.PodStatus) {
		return func(now *v1.PodStatus) {
			if c := podfacts.Condition(now.Conditions, "example.com/gate"); c != nil {
				c.Status = value
				return
			}
			now.Conditions = append(now.Conditions, is("example.com/gate", value, 3))
		}
	}
	states := []*v1.PodStatus{first(), second(), third()}
	for i, value := range []v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse} {
		s.edit(gate(value))
		if _, err := s.Sink.Patch(s.ctx, s.ref, states[i], states[i+1]); err != nil {
			return fmt.Errorf("Patch: %w", err)
		}
		pod := s.pod()
		if err := shows(pod, states[i+1]); err != nil {
			return err
		}
		if c := podfacts.Condition(pod.Status.Conditions, "example.com/gate"); c == nil || c.Status != value {
			return fmt.Errorf("a condition that another component set to %s meanwhile is %v", value, c)
		}
	}
	return nil
}

func again(s *fixture) error {
	for range 2 {
		if err := s.write(s.ctx, s.ref, first(), second()); err != nil {
			return fmt.Errorf("repeated call: %w", err)
		}
	}
	return shows(s.pod(), second())
}

// patchStale patches from a state that another client has changed meanwhile.
func patchStale(s *fixture) error {
	s.edit(func(now *v1.PodStatus) { now.NominatedNodeName = "another" })
	wanted := first()
	wanted.Phase, wanted.Message = v1.PodRunning, "up"
	if _, err := s.Sink.Patch(s.ctx, s.ref, first(), wanted); err != nil {
		return fmt.Errorf("Patch: %w", err)
	}
	pod := s.pod()
	if pod.Status.NominatedNodeName != "another" {
		return errors.New("Patch changed a field that differs in neither status and was set by another component")
	}
	return shows(pod, wanted)
}

func patchOther(s *fixture) error {
	if _, err := s.recreate(); err != nil {
		return err
	}
	if _, err := s.Sink.Patch(s.ctx, s.ref, first(), third()); !errors.Is(err, status.ErrConflict) {
		return fmt.Errorf("Patch with the UID of the previous pod returned %v instead of ErrConflict", err)
	}
	return shows(s.pod(), first())
}

func patchNone(s *fixture) error {
	ref := status.Ref{Namespace: namespace, Name: "nobody", UID: "uid"}
	if _, err := s.Sink.Patch(s.ctx, ref, first(), second()); !errors.Is(err, status.ErrNotFound) {
		return fmt.Errorf("Patch of a missing pod returned %v instead of ErrNotFound", err)
	}
	if s.Pod(ref.Namespace, ref.Name) != nil {
		return errors.New("Patch of a missing pod created it")
	}
	return nil
}

// overwrite changes the values that a status points to, to detect shared memory.
func overwrite(s *v1.PodStatus) {
	for i := range s.Conditions {
		s.Conditions[i].Message = "scribbled"
	}
	for i := range s.ContainerStatuses {
		s.ContainerStatuses[i].Image = "scribbled"
	}
}

func returnedUnchanged(s *fixture) error {
	patched, err := s.patch(second())
	if err != nil {
		return err
	}
	got, err := s.Sink.Get(s.ctx, s.ref)
	if err != nil {
		return fmt.Errorf("Get: %w", err)
	}
	if _, err := s.Sink.Patch(s.ctx, s.ref, second(), third()); err != nil {
		return fmt.Errorf("Patch: %w", err)
	}
	s.edit(func(now *v1.PodStatus) { overwrite(now) })
	if err := shows(patched, second()); err != nil {
		return fmt.Errorf("the pod returned by Patch has changed: %w", err)
	}
	if err := shows(got, second()); err != nil {
		return fmt.Errorf("the pod returned by Get has changed: %w", err)
	}
	return nil
}

func concurrentCalls(s *fixture) error {
	const n = 20
	refs := make([]status.Ref, n)
	for i := range refs {
		var err error
		name := "pod-" + strconv.Itoa(i)
		if refs[i], err = s.create(name, types.UID("uid-"+name)); err != nil {
			return err
		}
	}
	errs := make([]error, n)
	var busy sync.WaitGroup
	for i, ref := range refs {
		busy.Go(func() {
			if !receives(s.Subject) {
				_, errs[i] = s.Sink.Get(s.ctx, ref)
			}
			for _, to := range [][2]*v1.PodStatus{{first(), second()}, {second(), third()}} {
				errs[i] = errors.Join(errs[i], s.write(s.ctx, ref, to[0], to[1]))
			}
		})
	}
	busy.Wait()
	for i, ref := range refs {
		if errs[i] != nil {
			return fmt.Errorf("concurrent calls for several pods: %w", errs[i])
		}
		if err := shows(s.Pod(ref.Namespace, ref.Name), third()); err != nil {
			return fmt.Errorf("after concurrent calls for several pods: %w", err)
		}
	}
	return nil
}

// cancelledContext writes with a cancelled context. The call may take effect or not, but it
// must return promptly, and its result must match its effect.
func cancelledContext(s *fixture) error {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	done := make(chan error, 1)
	go func() { done <- s.write(ctx, s.ref, first(), second()) }()
	timer := time.NewTimer(ruleTimeout)
	defer timer.Stop()
	var err error
	select {
	case err = <-done:
	case <-timer.C:
		return errors.New("the call did not return after the end of its context")
	}
	if err == nil {
		return shows(s.pod(), second())
	}
	if !receives(s.Subject) && (errors.Is(err, status.ErrNotFound) || errors.Is(err, status.ErrConflict)) {
		return fmt.Errorf("the call reported the end of the context as another error: %w", err)
	}
	return nil
}

func deleteNow(s *fixture) error {
	if _, err := s.patch(third()); err != nil {
		return err
	}
	if err := s.Sink.Delete(s.ctx, s.ref); err != nil {
		return fmt.Errorf("Delete: %w", err)
	}
	if pod := s.pod(); pod != nil {
		return fmt.Errorf("the pod still exists after Delete: %s", named(pod))
	}
	return nil
}

func deleteOther(s *fixture) error {
	new, err := s.recreate()
	if err != nil {
		return err
	}
	if err := s.Sink.Delete(s.ctx, s.ref); !errors.Is(err, status.ErrConflict) {
		return fmt.Errorf("Delete with the UID of the previous pod returned %v instead of ErrConflict", err)
	}
	if pod := s.Pod(new.Namespace, new.Name); pod == nil || pod.UID != new.UID {
		return errors.New("Delete with the UID of the previous pod removed the new pod")
	}
	return nil
}

func deleteNone(s *fixture) error {
	s.Remove(s.ref.Namespace, s.ref.Name)
	if err := s.Sink.Delete(s.ctx, s.ref); !errors.Is(err, status.ErrNotFound) {
		return fmt.Errorf("Delete of a missing pod returned %v instead of ErrNotFound", err)
	}
	return nil
}
