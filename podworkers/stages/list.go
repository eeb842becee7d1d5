package stages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
)

// List prepares and releases the stages of an agent. Use New. It is safe for concurrent use.
// Prepare and Release of one pod should have one caller at a time; a second caller waits up to 1
// s for the running step, and then fails with ErrUnresponsive.
type List struct {
	cfg     Config
	running run.Group

	mu    sync.Mutex
	calls map[lane]*call
	// pods has the progress of each stage, for pods that this agent has handled.
	pods map[types.UID][]progress
}

// New checks the configuration and returns a List. Each entry needs a stage, a moment and a
// unique, non-empty name.
func New(cfg Config) (*List, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &List{cfg: cfg, calls: map[lane]*call{}, pods: map[types.UID][]progress{}}, nil
}

// Prepare prepares the stages for a pod, in order. It stops at the first error and returns it as
// a StepError. Stages that were prepared before stay prepared. A pod without UID, name or
// namespace is refused before the first stage, with another error.
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

// Release releases the stages of a moment in reverse order. It stops at the first error and
// returns it as a StepError, because a stage may depend on earlier ones, such as volumes on the
// folder with their mounts. The caller retries later; stages that were already released are
// released again, without effect. An empty UID or another moment is refused.
//
// Gone comes after Stopped: the caller releases with Gone when Stopped has succeeded.
func (l *List) Release(ctx context.Context, uid types.UID, moment Moment) error {
	switch {
	case uid == "":
		return errors.New("stages: release: the pod needs a UID")
	case moment != Stopped && moment != Gone:
		return fmt.Errorf("stages: release: %v is not Stopped or Gone", moment)
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

func (l *List) step(ctx context.Context, uid types.UID, i int, a Action, f func(context.Context) error) error {
	e := &l.cfg.Stages[i]
	err := l.do(ctx, &call{
		on: lane{uid: uid}, name: a.gerund() + " " + e.Name, of: " of pod " + string(uid), timeout: e.Timeout, f: f,
		begin:     func(now time.Time) { l.progress(uid, i).begin(a, now) },
		cancelled: func(now time.Time) { l.progress(uid, i).cancel(now) },
		end:       func(err error, now time.Time) { l.progress(uid, i).end(a, err, now) },
	})
	if err != nil {
		return &StepError{Stage: e.Name, Action: a, UID: uid, Err: err}
	}
	return nil
}

// progress returns the progress of a stage for a pod. The caller holds mu.
func (l *List) progress(uid types.UID, i int) *progress {
	p := l.pods[uid]
	if p == nil {
		p = make([]progress, len(l.cfg.Stages))
		l.pods[uid] = p
	}
	return &p[i]
}

func (l *List) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[lane{uid: uid}] == nil {
		delete(l.pods, uid)
	}
}

// Leftovers returns the names of the stages that have resources of each pod, in the order of the
// list. If stages fail, it returns the results of the rest and an error that names the failed
// ones.
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
	found := make(chan []types.UID, 1) // buffered: the result of a late listing is discarded
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

// Wait blocks until no step runs, at most for limit. An ending agent calls it after all users of
// the list have ended, because a step that ignores its context may still run. The error wraps
// ErrShutdownTimeout and lists the running steps. Releaser.Run calls Wait as well.
func (l *List) Wait(limit time.Duration) error {
	return run.StillRunning("stages", limit, l.running.Wait(limit))
}
