package syncloop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// iterate handles everything that is dirty now: changes of pods first, since
// syncs and housekeeping go by them.
func (l *Loop) iterate(ctx context.Context) {
	l.retry(ctx)
	for _, source := range l.dirty.takeSources() {
		if ctx.Err() != nil {
			return
		}
		l.handleSource(ctx, source)
	}
	if syncs := l.dirty.takeSyncs(); len(syncs) > 0 && ctx.Err() == nil {
		l.handleSyncs(ctx, syncs)
	}
	if l.dirty.takeHousekeeping() && ctx.Err() == nil && l.sourcesReady() {
		l.housekeep(ctx)
	}
}

// retry tries again, each by itself, what the handler panicked on.
func (l *Loop) retry(ctx context.Context) {
	if !l.stuck.due(time.Now()) {
		return
	}
	for _, source := range l.stuck.takeSources() {
		l.handleSource(ctx, source)
	}
	for _, uid := range slices.Clone(l.stuck.order) {
		for l.stuck.holds(uid) && ctx.Err() == nil {
			c := l.stuck.changes[uid][0]
			if l.change(ctx, c.source, c.Change) != nil {
				break
			}
			l.stuck.handled(uid, 1)
		}
	}
	for _, source := range slices.Sorted(maps.Keys(l.stuck.pending)) {
		l.sourceHandled(source)
	}
	for _, s := range l.stuck.takeSyncs() {
		l.handleSyncs(ctx, []Sync{s})
	}
	l.stuck.attempted(time.Now())
	l.state.stuckNow(l.stuck.size())
}

// handleSource hands the changes of one source to the handler.
func (l *Loop) handleSource(ctx context.Context, source string) {
	var changes []Change
	if err := l.step("asking for the changes of "+source, func() error {
		changes = l.cfg.Pods.Changes(source)
		return nil
	}); err != nil {
		l.stuck.pushSource(source, time.Now())
		l.stuck.pending[source] = true
		l.state.stuckNow(l.stuck.size())
		return
	}
	for _, c := range changes {
		l.handleChange(ctx, source, c)
	}
	l.sourceHandled(source)
}

// sourceHandled says that a source has been handled, if all of it has: a pod that
// the handler could not be told of must not look as if nobody wanted it.
func (l *Loop) sourceHandled(source string) {
	if l.stuck.holdsOf(source) {
		l.stuck.pending[source] = true
		return
	}
	delete(l.stuck.pending, source)
	_ = l.step("noting that "+source+" is handled", func() error {
		l.cfg.Pods.Handled(source)
		return nil
	})
}

// handleChange hands a change to the handler. If it panics it is called again
// with one pod at a time; those on which it panics alone wait, and later changes
// of them behind.
func (l *Loop) handleChange(ctx context.Context, source string, c Change) {
	if l.stuck.size() > 0 && len(c.Pods) > 0 {
		free := make([]*v1.Pod, 0, len(c.Pods))
		for _, pod := range c.Pods {
			if l.stuck.holds(pod.UID) {
				l.push(source, c, pod)
				continue
			}
			free = append(free, pod)
		}
		if c.Pods = free; len(free) == 0 {
			return
		}
	}
	if l.change(ctx, source, c) == nil {
		return
	}
	for _, pod := range c.Pods {
		alone := c
		alone.Pods = []*v1.Pod{pod}
		if len(c.Pods) == 1 || l.change(ctx, source, alone) != nil {
			l.push(source, c, pod)
		}
	}
}

func (l *Loop) push(source string, c Change, pod *v1.Pod) {
	c.Pods = []*v1.Pod{pod}
	l.stuck.push(stuckChange{Change: c, source: source}, time.Now())
	l.state.stuckNow(l.stuck.size())
}

// change calls the handler's method for a change.
func (l *Loop) change(ctx context.Context, source string, c Change) error {
	if len(c.Pods) > 0 {
		l.cfg.Logger.Debug("pods changed", "op", c.Op.String(), "source", source, "pods", len(c.Pods))
	}
	return l.step(aboutPods(c.Op.String()+" from "+source, c.Pods), func() error {
		switch h := l.cfg.Handler; c.Op {
		case OpAdd:
			h.HandlePodAdditions(ctx, c.Pods)
		case OpUpdate, OpDelete:
			h.HandlePodUpdates(ctx, c.Pods)
		case OpRemove:
			h.HandlePodRemoves(ctx, c.Pods)
		case OpReconcile:
			h.HandlePodReconcile(ctx, c.Pods)
		default:
			l.cfg.Logger.Error("pods changed by an unknown operation", "op", uint8(c.Op), "source", source)
		}
		return nil
	})
}

// aboutPods names the pod that a step is about, if it is about one.
func aboutPods(what string, pods []*v1.Pod) string {
	if len(pods) != 1 {
		return what
	}
	return fmt.Sprintf("%s: pod %s/%s (%s)", what, pods[0].Namespace, pods[0].Name, pods[0].UID)
}

// handleSyncs has pods synced, one by one if the handler panics.
func (l *Loop) handleSyncs(ctx context.Context, syncs []Sync) {
	what := "syncing pods"
	if len(syncs) == 1 {
		what = fmt.Sprintf("syncing pod %s", syncs[0].UID)
	}
	if l.step(what, func() error { l.cfg.Handler.HandlePodSyncs(ctx, syncs); return nil }) == nil {
		return
	}
	if len(syncs) == 1 {
		l.stuck.pushSync(syncs[0], time.Now())
		l.state.stuckNow(l.stuck.size())
		return
	}
	for i := range syncs {
		l.handleSyncs(ctx, syncs[i:i+1])
	}
}

// sourcesReady asks whether every source of pods has been heard. Whoever cannot
// answer is not ready.
func (l *Loop) sourcesReady() (ready bool) {
	_ = l.watch("asking whether the sources are ready", func() error { ready = l.cfg.SourcesReady(); return nil })
	return ready
}

// housekeep calls HandlePodCleanups, and reports errors once per text.
func (l *Loop) housekeep(ctx context.Context) {
	started := time.Now()
	err := l.step("housekeeping", func() error { return l.cfg.Handler.HandlePodCleanups(ctx) })
	if took := time.Since(started); took > l.cfg.HousekeepingWarning {
		l.cfg.Logger.Warn("housekeeping took long", "took", took)
	}
	if changed := l.state.housekept(started, err); !changed || ctx.Err() != nil {
		return
	}
	if err != nil {
		l.cfg.Logger.Error("housekeeping", "err", err)
		return
	}
	l.cfg.Logger.Info("housekeeping works again")
}

// step makes one call that gets something done.
func (l *Loop) step(what string, call func() error) error {
	l.state.active(time.Now())
	err := l.watch(what, call)
	l.state.active(time.Now())
	return err
}

// watch makes one call of something that others wrote, visible in Status. A panic
// becomes an error.
func (l *Loop) watch(what string, call func() error) error {
	l.state.begin(what, time.Now())
	err := guard(what, call)
	l.state.end()
	var panicked *PanicError
	if err != nil && errors.As(err, &panicked) {
		l.state.panicked(panicked)
		l.cfg.Logger.Error("the sync loop caught a panic", "step", what, "panic", panicked.Value, "stack", string(panicked.Stack))
	}
	return err
}

// stepKey is where SetStep finds the loop in the context of a handler.
type stepKey struct{}

// SetStep says what a handler is doing, in words: Status shows it, and so does
// CheckHealth if the handler hangs. ctx is the one that the Loop passed in; with
// any other SetStep does nothing.
func SetStep(ctx context.Context, step string) {
	if s, ok := ctx.Value(stepKey{}).(*loopState); ok {
		s.setStep(step)
	}
}
