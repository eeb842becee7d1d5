package syncloop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
)

// iterate handles everything that is dirty. Changes of pods precede syncs and housekeeping, which
// depend on them.
func (l *Loop) iterate(ctx context.Context) {
	if l.retries.due(time.Now()) {
		l.retry(ctx)
	}
	for _, source := range l.dirty.takeSources() {
		l.handleSource(ctx, source, false)
	}
	if syncs := l.dirty.takeSyncs(); len(syncs) > 0 {
		l.handleSyncs(ctx, syncs)
	}
	stuck := l.countStuck()
	l.state.set(func(st *Status) { st.Stuck = stuck })
	if l.dirty.takeHousekeeping() && ctx.Err() == nil {
		l.housekeep(ctx)
	}
}

// retry repeats each call that panicked, one pod or source at a time.
func (l *Loop) retry(ctx context.Context) {
	for _, source := range slices.Sorted(maps.Keys(l.retries.sources)) {
		l.handleSource(ctx, source, true)
	}
	for _, uid := range slices.Sorted(maps.Keys(l.retries.syncs)) {
		kinds := l.retries.syncs[uid]
		delete(l.retries.syncs, uid)
		l.handleSyncs(ctx, []Sync{{UID: uid, Kinds: kinds}})
	}
	l.retries.attempted(time.Now())
}

func (l *Loop) countStuck() int {
	n := len(l.retries.syncs)
	for source := range l.retries.sources {
		failed := 0
		if set := l.handled[source]; set != nil {
			failed = len(set.failed)
		}
		n += max(1, failed)
	}
	return n
}

// handleSource passes the differences of a source to the handler and calls Handled once all
// succeeded: a pod that the handler could not receive must not look like an orphan. It retries
// failed pods only if retry is set. It does nothing after ctx is done.
func (l *Loop) handleSource(ctx context.Context, source string, retry bool) {
	if ctx.Err() != nil {
		return
	}
	var newest []*v1.Pod
	var delivered bool
	err := l.step("reading the pods of "+source, func() error {
		newest, delivered = l.cfg.Pods.Pods(source)
		return nil
	})
	if delivered {
		err = l.handlePods(ctx, source, newest, retry)
	}
	if err == nil {
		delete(l.retries.sources, source)
		return
	}
	l.retries.sources[source] = true
	l.retries.plan(time.Now())
}

// errFailed is returned if the handler panicked over a pod of the source.
var errFailed = errors.New("the handler panicked on some pods")

func (l *Loop) handlePods(ctx context.Context, source string, newest []*v1.Pod, retry bool) error {
	set := l.handled[source]
	if set == nil {
		set = newHandledSet()
		l.handled[source] = set
	}
	if retry {
		l.repeat(ctx, source, set, newest)
	}
	for _, c := range set.changes(newest) {
		l.handleChange(ctx, source, set, c)
	}
	if len(set.failed) > 0 || !set.succeeded {
		return errFailed
	}
	return l.step("marking "+source+" as handled", func() error {
		l.cfg.Pods.Handled(source)
		return nil
	})
}

// repeat passes the pods on which the handler panicked to it again, one at a time.
func (l *Loop) repeat(ctx context.Context, source string, set *handledSet, newest []*v1.Pod) {
	present := map[types.UID]*v1.Pod{}
	for _, pod := range newest {
		if _, failed := set.failed[pod.UID]; failed {
			present[pod.UID] = pod
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(set.failed)) {
		for _, c := range set.repeat(uid, present[uid]) {
			if ctx.Err() != nil || l.change(ctx, source, set, c) != nil {
				break
			}
		}
	}
}

// handleChange passes a change to the handler. If that panics, it repeats the call with one pod at
// a time.
func (l *Loop) handleChange(ctx context.Context, source string, set *handledSet, c Change) {
	pods := set.ready(c.Pods)
	if len(pods) == 0 && len(c.Pods) > 0 {
		return
	}
	if c.Pods = pods; l.change(ctx, source, set, c) == nil || len(pods) < 2 {
		return
	}
	for i := range pods {
		_ = l.change(ctx, source, set, Change{Op: c.Op, Pods: pods[i : i+1]})
	}
}

func (l *Loop) change(ctx context.Context, source string, set *handledSet, c Change) error {
	if len(c.Pods) > 0 {
		l.cfg.Logger.Debug("pods changed", "op", c.Op.String(), "source", source, "pods", len(c.Pods))
	}
	err := l.step(stepName(c.Op.String()+" from "+source, c.Pods), func() error {
		switch h := l.cfg.Handler; c.Op {
		case OpAdd:
			h.HandlePodAdditions(ctx, c.Pods)
		case OpUpdate, OpDelete:
			h.HandlePodUpdates(ctx, c.Pods)
		case OpRemove:
			h.HandlePodRemoves(ctx, c.Pods)
		case OpReconcile:
			h.HandlePodReconcile(ctx, c.Pods)
		}
		return nil
	})
	set.record(c, err == nil)
	return err
}

// stepName adds the pod to the name of a step if there is exactly one.
func stepName(step string, pods []*v1.Pod) string {
	if len(pods) != 1 {
		return step
	}
	return fmt.Sprintf("%s: pod %s/%s (%s)", step, pods[0].Namespace, pods[0].Name, pods[0].UID)
}

// handleSyncs passes syncs to the handler, one by one if it panics.
func (l *Loop) handleSyncs(ctx context.Context, syncs []Sync) {
	if ctx.Err() != nil {
		return
	}
	step := "syncing pods"
	if len(syncs) == 1 {
		step = fmt.Sprintf("syncing pod %s", syncs[0].UID)
	}
	if l.step(step, func() error { l.cfg.Handler.HandlePodSyncs(ctx, syncs); return nil }) == nil {
		return
	}
	if len(syncs) == 1 {
		l.retries.syncs[syncs[0].UID] |= syncs[0].Kinds
		l.retries.plan(time.Now())
		return
	}
	for i := range syncs {
		l.handleSyncs(ctx, syncs[i:i+1])
	}
}

// housekeep calls HandlePodCleanups and logs changes of its result.
func (l *Loop) housekeep(ctx context.Context) {
	started := time.Now()
	err := l.step("housekeeping", func() error { return l.cfg.Handler.HandlePodCleanups(ctx) })
	if took := time.Since(started); took > slowHousekeeping {
		l.cfg.Logger.Warn("housekeeping took long", "took", took)
	}
	if changed := l.state.recordHousekeeping(started, err); !changed || ctx.Err() != nil {
		return
	}
	if err != nil {
		l.cfg.Logger.Error("housekeeping failed", "err", err)
		return
	}
	l.cfg.Logger.Info("housekeeping works again")
}

// step runs one call and updates LastActive.
func (l *Loop) step(name string, call func() error) error {
	active := func(st *Status) { st.LastActive = time.Now() }
	l.state.set(active)
	defer l.state.set(active)
	return l.watch(name, call)
}

// watch runs a callback and shows it in Status. It converts a panic into an error.
func (l *Loop) watch(name string, call func() error) error {
	l.state.set(func(st *Status) { st.Doing, st.Since, st.Step = name, time.Now(), "" })
	err := run.Guard(name, call)
	l.state.set(func(st *Status) { st.Doing, st.Since, st.Step = "", time.Time{}, "" })
	var panicked *PanicError
	if errors.As(err, &panicked) {
		l.state.set(func(st *Status) { st.LastPanic = panicked })
		l.cfg.Logger.Error("sync loop recovered from a panic", "err", err, "stack", string(panicked.Stack))
	}
	return err
}

type stepKey struct{}

// SetStep sets the text that describes the handler's current work. Status and, if the handler
// hangs, CheckHealth show it. ctx must come from the Loop; otherwise SetStep has no effect.
func SetStep(ctx context.Context, step string) {
	if s, ok := ctx.Value(stepKey{}).(*loopState); ok {
		s.set(func(st *Status) { st.Step = step })
	}
}
