package plegtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/pleg/observed"
)

// lastingCases are the rules about many answers, and what becomes of them.
func lastingCases() []testCase {
	return []testCase{
		{"an answer belongs to who asked", ownedAnswers},
		{"an ended context gives an error or the whole answer", endedContext},
		{"pods that come and go disturb no query", churn},
	}
}

// ownedAnswers changes an answer, which the next one must not show, and the pod,
// which an answer given before must not show.
func ownedAnswers(ctx context.Context, p *trial) error {
	uid, err := p.started(ctx)
	if err != nil {
		return err
	}
	o, s, err := p.both(ctx, uid)
	if err != nil {
		return err
	}
	o.Containers[0].State, s.Containers[0].State = observed.StateUnknown, observed.StateUnknown
	o, s, err = p.both(ctx, uid)
	if err != nil {
		return err
	}
	if o.Containers[0].State != observed.StateRunning || s.Containers[0].State != observed.StateRunning {
		return errors.New("an answer shows what the caller did to an earlier one")
	}
	if err := p.exit(ctx, uid); err != nil {
		return err
	}
	if o.Containers[0].State != observed.StateRunning || s.Containers[0].State != observed.StateRunning {
		return errors.New("an answer changes after it was given")
	}
	return nil
}

func endedContext(ctx context.Context, p *trial) error {
	uid, err := p.started(ctx)
	if err != nil {
		return err
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if list, err := p.Runtime.ListPods(ended); err == nil {
		whole := &trial{Subject: Subject{Runtime: listOf(list)}}
		if o, err := whole.listed(ctx, uid); err != nil || o == nil {
			return errors.New("ListPods returned no error for an ended context, and not all pods")
		}
	}
	if s, err := p.Runtime.PodStatus(ended, uid); err == nil && (s == nil || len(s.Containers) == 0) {
		return errors.New("PodStatus returned no error for an ended context, and not all of the pod")
	}
	return nil
}

// listOf is an answer as a runtime.
type listOf []observed.ListedPod

func (l listOf) ListPods(context.Context) ([]observed.ListedPod, error) { return l, nil }

func (l listOf) PodStatus(context.Context, types.UID) (*observed.Pod, error) { return nil, nil }

const (
	churners    = 3 // pods that come and go
	churnRounds = 2 // times that each of them does
	lookers     = 4 // goroutines that look
	// lookPause is between two looks, so that time passes in a bubble.
	lookPause = time.Millisecond
)

// churn lets pods come and go while others look at them, and at one that stays.
func churn(ctx context.Context, p *trial) error {
	steady, err := p.started(ctx)
	if err != nil {
		return err
	}
	var churning, looking sync.WaitGroup
	var errs failures
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var coming []types.UID
	for range churners {
		coming = append(coming, p.newUID())
	}
	for _, uid := range coming {
		churning.Go(func() { errs.add(p.comeAndGo(ctx, uid)) })
	}
	for i := range lookers {
		looking.Go(func() {
			for n := 0; run.Sleep(watching, lookPause); n++ {
				if err := p.lookAround(ctx, steady, coming[(i+n)%len(coming)]); err != nil {
					errs.add(err)
					return
				}
			}
		})
	}
	churning.Wait()
	errs.add(p.lookAround(ctx, steady, coming[0]))
	stop()
	looking.Wait()
	return errs.err
}

func (p *trial) comeAndGo(ctx context.Context, uid types.UID) error {
	for range churnRounds {
		if err := errors.Join(p.start(ctx, uid), p.exit(ctx, uid), p.remove(ctx, uid)); err != nil {
			return err
		}
	}
	return nil
}

// lookAround looks once, at a pod that stays and at one that comes or goes.
func (p *trial) lookAround(ctx context.Context, steady, coming types.UID) error {
	if err := p.all(ctx, steady, observed.StateRunning); err != nil {
		return fmt.Errorf("of a pod to which nothing happens: %w", err)
	}
	if _, err := p.status(ctx, coming); err != nil {
		return fmt.Errorf("of a pod that comes or goes: %w", err)
	}
	return nil
}

// failures keeps the first error of several goroutines.
type failures struct {
	mu  sync.Mutex
	err error
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}
