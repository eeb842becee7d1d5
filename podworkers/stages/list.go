package stages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
)

// List is the stages of an agent. Use New. Methods are safe for concurrent use.
// Prepare and Release of one pod are the business of one caller at a time; a second
// one waits for the step that runs, for 1 s.
type List struct {
	cfg     Config
	running run.Group

	mu    sync.Mutex
	calls map[lane]*call // those that run
	// pods says what this agent has done for a pod, with each stage.
	pods map[types.UID][]progress
}

// New checks the configuration and returns a List. Names are not empty and not the
// same, no stage is missing.
func New(cfg Config) (*List, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &List{cfg: cfg, calls: map[lane]*call{}, pods: map[types.UID][]progress{}}, nil
}

// Prepare prepares the stages for a pod, in order. It stops at the first error, which
// is a StepError; what was prepared before stays, and the next attempt finds it.
func (l *List) Prepare(ctx context.Context, pod *v1.Pod) error {
	if pod == nil || pod.UID == "" || pod.Name == "" || pod.Namespace == "" {
		return errors.New("stages: prepare: the pod needs a UID, a name and a namespace")
	}
	for i, e := range l.cfg.Stages {
		err := l.step(ctx, pod.UID, i, Prepare, func(ctx context.Context) error { return e.Stage.Prepare(ctx, pod) })
		if err != nil {
			return err
		}
	}
	return nil
}

// Release releases the stages of a moment, the last one first. It stops at the first
// error, which is a StepError: a stage may build on those before it, such as volumes
// on the folder in which they are mounted. The caller tries again later; what is
// released by then is released once more, which changes nothing.
//
// Gone comes after Stopped: the caller releases with Gone when Stopped has succeeded.
func (l *List) Release(ctx context.Context, uid types.UID, moment Moment) error {
	switch {
	case uid == "":
		return errors.New("stages: release: the pod needs a UID")
	case moment != Stopped && moment != Gone:
		return fmt.Errorf("stages: release: %v is no moment", moment)
	}
	for i, e := range slices.Backward(l.cfg.Stages) {
		if e.Release != moment {
			continue
		}
		err := l.step(ctx, uid, i, Release, func(ctx context.Context) error { return e.Stage.Release(ctx, uid) })
		if err != nil {
			return err
		}
	}
	if moment == Gone {
		l.forget(uid)
	}
	return nil
}

// step lets one stage act for a pod.
func (l *List) step(ctx context.Context, uid types.UID, i int, a Action, f func(context.Context) error) error {
	e := &l.cfg.Stages[i]
	err := l.do(ctx, &call{
		on: lane{uid: uid}, name: a.doing() + " " + e.Name, of: " of pod " + string(uid), timeout: e.Timeout, f: f,
		begin:     func(now time.Time) { l.progress(uid, i).begin(a, now) },
		cancelled: func(now time.Time) { l.progress(uid, i).cancel(now) },
		end:       func(err error, now time.Time) { l.progress(uid, i).end(a, err, now) },
	})
	if err != nil {
		return &StepError{Stage: e.Name, Action: a, UID: uid, Err: err}
	}
	return nil
}

// progress is how far a stage is for a pod. The lock is held.
func (l *List) progress(uid types.UID, i int) *progress {
	p := l.pods[uid]
	if p == nil {
		p = make([]progress, len(l.cfg.Stages))
		l.pods[uid] = p
	}
	return &p[i]
}

// forget ends the explanation of a pod of which nothing is left.
func (l *List) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[lane{uid: uid}] == nil {
		delete(l.pods, uid)
	}
}

// Leftovers tells of which pods there is something, and for each the names of the
// stages that have it, in the order of the list. The error names the stages that could
// not tell; what the others have said is returned with it.
func (l *List) Leftovers(ctx context.Context) (map[types.UID][]string, error) {
	uids := make([][]types.UID, len(l.cfg.Stages))
	errs := make([]error, len(l.cfg.Stages))
	var wg sync.WaitGroup
	for i := range l.cfg.Stages {
		wg.Go(func() { uids[i], errs[i] = l.listOne(ctx, i) })
	}
	wg.Wait()
	out := map[types.UID][]string{}
	for i, e := range l.cfg.Stages {
		for _, uid := range uids[i] {
			if uid != "" && !slices.Contains(out[uid], e.Name) {
				out[uid] = append(out[uid], e.Name)
			}
		}
	}
	return out, errors.Join(errs...)
}

func (l *List) listOne(ctx context.Context, i int) ([]types.UID, error) {
	e := &l.cfg.Stages[i]
	found := make(chan []types.UID, 1) // a listing that comes too late is not read
	err := l.do(ctx, &call{
		on: lane{stage: e.Name}, name: "listing the leftovers of " + e.Name, timeout: listTimeout,
		f: func(ctx context.Context) error {
			uids, err := e.Stage.Leftovers(ctx)
			found <- uids
			return err
		},
	})
	if err != nil {
		err = fmt.Errorf("stages: leftovers of %s: %w", e.Name, err)
	}
	select {
	case uids := <-found:
		return uids, err
	default:
		return nil, err
	}
}

// Wait waits until no step runs, for limit at most. It is for whoever ends an agent,
// after everything that calls the list has ended: a step that ignores its context may
// still run then. Those that do are named in the error, which wraps ErrShutdownTimeout.
// Releaser.Run does it too.
func (l *List) Wait(limit time.Duration) error {
	return leftRunning(l.running.Wait(limit), limit)
}

func leftRunning(names []string, limit time.Duration) error {
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("stages: %w (%v): %s", ErrShutdownTimeout, limit, strings.Join(names, ", "))
}
