package statustest

import (
	"context"
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/difference"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/writer"
)

func convergence(s *fixture) (err error) {
	m, err := writer.New(writer.Config{Sinks: []writer.NamedSink{{Name: "sink", Sink: s.Sink}}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	defer func() {
		cancel()
		if stopped := <-ended; err == nil {
			err = stopped
		}
	}()
	var refs []status.Ref
	for i := range 10 {
		name := "pod-" + strconv.Itoa(i)
		ref, err := s.create(name, types.UID("uid-"+name))
		if err != nil {
			return err
		}
		refs = append(refs, ref)
	}
	for _, state := range []*v1.PodStatus{first(), second(), third()} {
		for _, ref := range refs {
			m.Set(s.made[ref], *state)
		}
	}
	for _, ref := range refs {
		if err := s.eventually(func() error { return s.checkDelivered(m, ref) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *fixture) checkDelivered(m *writer.Writer, ref status.Ref) error {
	pod := s.Pod(ref.Namespace, ref.Name)
	if pod == nil {
		return fmt.Errorf("pod %v is missing", ref)
	}
	c := podfacts.Condition(pod.Status.Conditions, v1.PodReady)
	if pod.Status.Phase != v1.PodFailed || pod.Status.Reason != "Evicted" || c == nil || c.Status != v1.ConditionFalse {
		return fmt.Errorf("pod %v does not have the last status:\n%s", ref, difference.Of(pod.Status, third()))
	}
	for _, x := range m.Explain(ref.UID) {
		if x.Why != "" {
			return fmt.Errorf("pod %v: %v", ref, x)
		}
	}
	return nil
}

func (s *fixture) eventually(check func() error) error {
	pause := time.Millisecond
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		case <-s.ctx.Done():
			return fmt.Errorf("not within %v: %w", ruleTimeout, err)
		}
	}
}
