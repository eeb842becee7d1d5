package podworkers

import (
	"context"
	"fmt"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// Kill terminates a pod and blocks until its containers have stopped, at most max(10 s, 1.5
// times the smaller of the deletion grace period and options.GracePeriodSeconds, or else the grace
// period of the spec). After that its error wraps ErrKillTimeout, and the kill continues. It
// also returns ctx's cause when ctx is done, while the kill continues, and with ErrAgentStopping
// when Run ends. Before Run no pod stops; the error of a Kill that waited for Run mentions it.
// Options.Done must be nil. An invalid argument fails at once with ErrInvalidUpdate. A syncer must
// not kill the pod of its running call this way, because Kill would wait for that call.
func (w *Workers) Kill(ctx context.Context, pod *v1.Pod, options KillOptions) error {
	u := Update{Type: UpdateKill, Pod: pod}
	if options.Done != nil {
		return fmt.Errorf("podworkers: %w: %s: Kill.Done: must be nil, because Kill waits", ErrInvalidUpdate, describe(u))
	}
	done := make(chan struct{})
	options.Done = done
	u.Kill = &options
	if err := w.UpdatePod(u); err != nil {
		return err
	}
	limit := killTimeout(pod, options.GracePeriodSeconds)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		w.reportSlowKill(pod, limit)
		return fmt.Errorf("podworkers: %s: %w (%v)%s", describe(u), ErrKillTimeout, limit, w.beforeRun())
	case <-w.stopping:
		return fmt.Errorf("podworkers: %s: %w", describe(u), ErrAgentStopping)
	case <-ctx.Done():
		return fmt.Errorf("podworkers: %s: %w%s", describe(u), context.Cause(ctx), w.beforeRun())
	}
}

// beforeRun returns the reason why no pod stops before Run, for errors.
func (w *Workers) beforeRun() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started {
		return ""
	}
	return ": Run has not started"
}

func killTimeout(pod *v1.Pod, override *int64) time.Duration {
	seconds := effectiveGrace(grace{}, pod, override).seconds
	limit := time.Duration(min(seconds, math.MaxInt32)) * time.Second
	return max(10*time.Second, limit+limit/2)
}

func (w *Workers) reportSlowKill(pod *v1.Pod, limit time.Duration) {
	w.log.Warn("pod did not stop in time", "pod", pod.Namespace+"/"+pod.Name, "podUID", pod.UID, "limit", limit)
	if w.cfg.Event == nil {
		return
	}
	w.cfg.Event(podfacts.Reference(pod), v1.EventTypeWarning, "ExceededGracePeriod", "Container runtime did not kill the pod within specified grace period.")
}
