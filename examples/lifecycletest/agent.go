package lifecycletest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
)

// program is the program of a pod. It returns when its context is done. An error is a crash.
type program func(ctx context.Context) error

// agent is a PodSyncer that runs one program per pod, selected by the image of its container.
type agent struct {
	programs map[string]program
	// ended is called when a pod's program has ended, to request a sync. Optional.
	ended func(*v1.Pod)

	mu   sync.Mutex
	jobs map[types.UID]*job
}

// job is the program of one pod, kept after its end.
type job struct {
	stop    context.CancelFunc
	done    chan struct{} // closed at the end, after err and at were set
	err     error
	at      time.Time
	crashes int
}

func newAgent(programs map[string]program) *agent {
	return &agent{programs: programs, jobs: map[types.UID]*job{}}
}

// run runs the agent until ctx is done. It then stops the programs, because goroutines, unlike
// containers, cannot continue without the process.
func (a *agent) run(ctx context.Context, workers *podworkers.Workers) error {
	err := workers.Run(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, j := range a.jobs {
		j.stop()
		<-j.done
	}
	return err
}

func (a *agent) job(uid types.UID) *job {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.jobs[uid]
}

// SyncPod starts the program, and restarts it after a crash: after 10 s, 20 s and so on up to five
// minutes.
func (a *agent) SyncPod(ctx context.Context, w podworkers.Work) (terminal bool, err error) {
	if len(w.Pod.Spec.Containers) != 1 {
		return false, errors.New("spec.containers: exactly one is required")
	}
	p := a.programs[w.Pod.Spec.Containers[0].Image]
	if p == nil {
		return false, errors.New("spec.containers[0].image: no such program")
	}
	j := a.job(w.Pod.UID)
	if j == nil {
		a.start(ctx, p, w.Pod, 0)
		return false, nil
	}
	select {
	case <-j.done:
	default:
		return false, nil // it is running
	}
	if j.err == nil {
		return true, nil
	}
	pause := min(10*time.Second<<min(j.crashes-1, 10), 5*time.Minute)
	if next := j.at.Add(pause); time.Now().Before(next) {
		return false, podworkers.RetryAt(fmt.Errorf("back-off %v: %w", pause, j.err), next)
	}
	a.start(ctx, p, w.Pod, j.crashes)
	return false, nil
}

// start runs the program in a goroutine whose context does not end with the call.
func (a *agent) start(ctx context.Context, p program, pod *v1.Pod, crashes int) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	j := &job{stop: stop, done: make(chan struct{}), crashes: crashes}
	a.mu.Lock()
	a.jobs[pod.UID] = j
	a.mu.Unlock()
	go func() {
		defer stop()
		if j.err = p(ctx); j.err != nil {
			j.crashes++
		}
		j.at = time.Now()
		close(j.done)
		if a.ended != nil {
			a.ended(pod)
		}
	}()
}

// SyncTerminatingPod stops the program and waits for it.
func (a *agent) SyncTerminatingPod(ctx context.Context, w podworkers.Work) error {
	j := a.job(w.Pod.UID)
	if j == nil {
		return nil
	}
	j.stop()
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(w.GracePeriodSeconds) * time.Second):
		return fmt.Errorf("still runs %d s after the stop request", w.GracePeriodSeconds)
	}
}

// SyncTerminatedPod drops the program.
func (a *agent) SyncTerminatedPod(_ context.Context, w podworkers.Work) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.jobs, w.Pod.UID)
	return nil
}
