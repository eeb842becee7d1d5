package shutdown

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/run"
)

// leastGrace is the shortest time for the pods of a group, and then for its volumes, also if its
// Period is 0 s or its pods need all of it. Upstream then waits for neither.
const leastGrace = time.Second

// endPods performs one shutdown. It ends early when ctx is done.
func (m *Manager) endPods(ctx context.Context) {
	times := m.startTimes()
	m.recordTimes(times)
	defer func() {
		// When the agent stops, the shutdown continues with the next agent.
		if cause := context.Cause(ctx); cause == nil || errors.Is(cause, errCancelled) {
			times.End = time.Now()
			m.recordTimes(times)
		}
	}()
	var pods []*v1.Pod
	m.guard("Pods", func() error { pods = m.cfg.Pods(); return nil })
	for _, g := range Groups(m.cfg.Periods, pods) {
		if ctx.Err() != nil {
			return
		}
		m.endGroup(ctx, g)
	}
	if ctx.Err() != nil {
		return
	}
	if m.cfg.Flush != nil {
		m.within(ctx, flushTimeout, "Flush", m.cfg.Flush)
	}
}

// startTimes returns the start of the shutdown. If the previous agent was interrupted during this
// shutdown, that is the time in its file.
func (m *Manager) startTimes() Times {
	if m.cfg.TimesFile != "" {
		before, err := ReadTimes(m.cfg.TimesFile)
		if err != nil {
			m.cfg.Logger.Warn("ignoring the times of the last shutdown", "err", err)
		}
		// An old shutdown without an end is another one.
		limit := 2*Total(m.cfg.Periods) + flushTimeout
		if since := time.Since(before.Start); before.End.IsZero() && since >= 0 && since <= limit {
			return before
		}
	}
	return Times{Start: time.Now()}
}

func (m *Manager) recordTimes(t Times) {
	if m.cfg.TimesFile != "" {
		m.guard("TimesFile", func() error { return t.Write(m.cfg.TimesFile) })
	}
	if m.cfg.OnTimes != nil {
		m.guard("OnTimes", func() error { m.cfg.OnTimes(t); return nil })
	}
}

func (m *Manager) endGroup(ctx context.Context, g Group) {
	m.cfg.Logger.Info("stopping pods for the node shutdown", "priority", g.Priority, "pods", len(g.Pods), "grace", g.Grace)
	begun, limit := time.Now(), max(g.Grace, leastGrace)
	m.within(ctx, limit, "Kill", func(ctx context.Context) error {
		var all sync.WaitGroup
		for _, pod := range g.Pods {
			all.Go(func() {
				if err := run.Guard("Kill", func() error { return m.cfg.Kill(ctx, pod, g.Seconds(pod)) }); err != nil {
					m.cfg.Logger.Warn("pod did not stop for the node shutdown", "pod", pod.Namespace+"/"+pod.Name, "podUID", pod.UID, "err", err, "stack", run.StackOf(err))
				}
			})
		}
		all.Wait()
		return nil
	})
	if m.cfg.Unmounted != nil && ctx.Err() == nil {
		rest := max(limit-time.Since(begun), leastGrace)
		m.within(ctx, rest, "Unmounted", func(ctx context.Context) error { return m.cfg.Unmounted(ctx, g.Pods) })
	}
}

// within calls f and returns after limit, even if f ignores its context. Run waits for f before it
// returns.
func (m *Manager) within(ctx context.Context, limit time.Duration, step string, f func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	done := make(chan struct{})
	m.calls.Go(step, func() {
		defer cancel()
		defer close(done)
		m.guard(step, func() error { return f(ctx) })
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}
