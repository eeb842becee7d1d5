package lifecycletest

import (
	"cmp"
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

// job is the newest run of a pod's program, kept after its end.
type job struct {
	image   string
	run     int // 0 is the first run
	stop    context.CancelFunc
	done    chan struct{} // closed at the end, after err and at were set
	err     error
	at      time.Time
	ends    int   // runs of this program that have ended
	version int64 // the pod's generation at the last sync
	final   bool  // the pod completes with this run
	last    *job  // the previous run, or nil; its own last is nil
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

// SyncPod starts the program, and replaces it when the image changes. It restarts an ended program
// as the restart policy requires: after 10 s, 20 s and so on up to five minutes. Without a policy it
// restarts after a crash.
func (a *agent) SyncPod(ctx context.Context, w podworkers.Work) (terminal bool, err error) {
	if len(w.Pod.Spec.Containers) != 1 {
		return false, errors.New("spec.containers: exactly one is required")
	}
	image := w.Pod.Spec.Containers[0].Image
	if a.programs[image] == nil {
		return false, errors.New("spec.containers[0].image: no such program")
	}
	j := a.job(w.Pod.UID)
	switch {
	case j == nil:
		a.start(ctx, w.Pod, &job{})
		return false, nil
	case j.image != image:
		if err := j.end(ctx); err != nil {
			return false, err
		}
		a.start(ctx, w.Pod, &job{run: j.run + 1, last: j})
		return false, nil
	}
	policy := w.Pod.Spec.RestartPolicy
	a.mu.Lock()
	j.version = w.Pod.Generation
	j.final = j.ended() && (policy == v1.RestartPolicyNever || policy != v1.RestartPolicyAlways && j.err == nil)
	a.mu.Unlock()
	if !j.ended() || j.final {
		return j.final, nil
	}
	pause := min(10*time.Second<<min(j.ends-1, 10), 5*time.Minute)
	if next := j.at.Add(pause); time.Now().Before(next) {
		return false, podworkers.RetryAt(fmt.Errorf("back-off %v: %w", pause, cmp.Or(j.err, error(exitCode(0)))), next)
	}
	a.start(ctx, w.Pod, &job{run: j.run + 1, ends: j.ends, last: j})
	return false, nil
}

// start runs the program in a goroutine whose context does not end with the call.
func (a *agent) start(ctx context.Context, pod *v1.Pod, j *job) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	j.image, j.stop, j.done, j.version = pod.Spec.Containers[0].Image, stop, make(chan struct{}), pod.Generation
	a.mu.Lock()
	if j.last != nil {
		j.last.last = nil
	}
	a.jobs[pod.UID] = j
	a.mu.Unlock()
	go func() {
		defer stop()
		j.err = a.programs[j.image](ctx)
		j.ends++
		j.at = time.Now()
		close(j.done)
		if a.ended != nil {
			a.ended(pod)
		}
	}()
}

// ended reports whether the program has returned.
func (j *job) ended() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// end stops the program and waits for it.
func (j *job) end(ctx context.Context) error {
	j.stop()
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// SyncTerminatingPod stops the program and waits for it.
func (a *agent) SyncTerminatingPod(ctx context.Context, w podworkers.Work) error {
	j := a.job(w.Pod.UID)
	if j == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(w.GracePeriodSeconds)*time.Second,
		fmt.Errorf("still runs %d s after the stop request", w.GracePeriodSeconds))
	defer cancel()
	return j.end(ctx)
}

// SyncTerminatedPod drops the program.
func (a *agent) SyncTerminatedPod(_ context.Context, w podworkers.Work) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.jobs, w.Pod.UID)
	return nil
}
