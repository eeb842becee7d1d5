package podworkerstest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
)

// Running returns the IDs of a pod's running containers or machines. A restart must change the
// ID. plegtest.RunningIDs returns a Running for a pleg.Runtime.
type Running func(uid types.UID) ([]string, error)

// Status returns the published status of a pod, or nil without one.
type Status func(uid types.UID) *v1.PodStatus

// Held returns the names of a pod's resources that SyncTerminatedPod must release, such as volumes
// and folders.
type Held func(uid types.UID) ([]string, error)

// views compare the results of the syncer with its effects.
type views struct {
	// Set before Run. Any may be nil.
	running Running
	status  Status
	held    Held

	// looking is held during calls of the functions, so that each history is in order.
	looking sync.Mutex
	// The Recorder's lock guards the following fields.
	pods map[types.UID]*history
	// synced is the first pod with a successful SyncPod. seen is true after any container was listed.
	synced types.UID
	seen   bool
	errs   []error
}

func (v *views) of(uid types.UID) *history {
	h := v.pods[uid]
	if h == nil {
		h = &history{containers: map[string]*instance{}, older: map[string]map[string]bool{}}
		v.pods[uid] = h
	}
	return h
}

// Running sets the view of running containers: the Recorder lists them before and after each call
// of the syncer, when a call is cancelled, and at each Check. It finds a syncer that starts a
// container after termination was requested or outside of its calls, one that reports a stop too
// early, and two instances of one container (two-instances). Call it before Run.
//
// A view that never lists a container although SyncPod succeeded is reported, too (blind), because
// it finds no mistake.
func (r *Recorder) Running(running Running) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.views.running = running
}

// Status sets the view of published statuses. The Recorder reads them at the same times as the
// running containers. It finds a terminal phase while a container runs (early-phase), a restart
// against the restart policy (restart-policy), an exit code that is lost or changes (exit-code),
// and a syncer that acts on an older version of the pod (stale-pod). Call it before Run.
func (r *Recorder) Status(status Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.views.status = status
}

// Held sets the view of held resources. The Recorder lists them after each SyncTerminatedPod and, of
// forgotten pods, at each Check. It finds resources that are kept (resource-kept), also those of a
// start that failed (resource-leaked). Call it before Run.
func (r *Recorder) Held(held Held) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.views.held = held
}

// Follow makes the Recorder continue the histories of an earlier Recorder: of the agent before a
// restart. Call it before Run, with the Recorder of workers whose Run has ended.
func (r *Recorder) Follow(earlier *Recorder) {
	earlier.mu.Lock()
	pods, seen := earlier.views.pods, earlier.views.seen
	earlier.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, h := range pods {
		after := h.clone()
		after.stopped, after.released, after.followed = podworkers.CallNone, false, true
		r.views.pods[uid] = after
	}
	r.views.seen = seen
}

// watched makes a call of the syncer with looks before it, at its cancellation, and after it. The
// call's context is cancelled after that look is complete, so that later starts can be
// distinguished from earlier ones.
func (r *Recorder) watched(ctx context.Context, w podworkers.Work, uid types.UID, kind podworkers.Call, outcome Outcome) (bool, error) {
	if r.views.running == nil && r.views.status == nil && r.views.held == nil {
		return outcome(ctx, w)
	}
	r.outside(uid, "before "+kind.String())
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	var atCancel look
	listed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(listed)
		atCancel = r.look(uid)
		cancel(context.Cause(ctx))
	})
	began := time.Now()
	terminal, err := outcome(own, w)
	took := time.Since(began)
	cut := !stop()
	if cut {
		<-listed
	}
	after := r.look(uid)
	r.mu.Lock()
	defer r.mu.Unlock()
	c := endedCall{kind: kind, work: w, took: took, err: err, look: after, scripted: r.checker.standIns[uid]}
	if cut {
		c.cancelled, c.atCancel = context.Cause(ctx), atCancel
	}
	if kind == podworkers.CallSyncPod && err == nil && r.views.synced == "" {
		r.views.synced = uid
	}
	r.judge(uid, r.views.of(uid).ended(c))
	return terminal, err
}

// look is the result of all views of a pod at one moment. A nil slice is unavailable.
type look struct {
	running, held []string
	status        *v1.PodStatus
}

// look calls the views and adds the result to the pod's history. The status is read first: a
// container that runs afterwards has run then, too.
func (r *Recorder) look(uid types.UID) look {
	r.views.looking.Lock()
	defer r.views.looking.Unlock()
	var l look
	if r.views.status != nil {
		l.status = r.views.status(uid).DeepCopy()
	}
	l.running = r.listed("running containers", uid, r.views.running)
	l.held = r.listed("held resources", uid, r.views.held)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.views.seen = r.views.seen || len(l.running) > 0
	r.judge(uid, r.views.of(uid).looked(l))
	return l
}

func (r *Recorder) listed(what string, uid types.UID, list func(types.UID) ([]string, error)) []string {
	if list == nil {
		return nil
	}
	names, err := list(uid)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.views.errs = append(r.views.errs, fmt.Errorf("podworkerstest: list %s of pod %s: %w", what, uid, err))
		return nil
	}
	return append([]string{}, slices.Sorted(slices.Values(names))...)
}

// outside finds starts that happened while no call ran.
func (r *Recorder) outside(uid types.UID, when string) {
	l := r.look(uid)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judge(uid, r.views.of(uid).outside(l, when))
}

// checkIdle looks at the pods without a running call. forgotten reports whether a pod has no worker.
func (r *Recorder) checkIdle(forgotten func(types.UID) bool) {
	r.mu.Lock()
	var idle []types.UID
	for uid := range r.views.pods {
		if r.inside[uid] == podworkers.CallNone {
			idle = append(idle, uid)
		}
	}
	r.mu.Unlock()
	for _, uid := range slices.Sorted(slices.Values(idle)) {
		l := r.look(uid)
		r.mu.Lock()
		h := r.views.of(uid)
		r.judge(uid, h.outside(l, "by Check"), h.settled(l, r.newest(uid)))
		if forgotten(uid) {
			r.judge(uid, h.forgotten(l))
		}
		r.mu.Unlock()
	}
}

// newest returns the newest spec of a pod, or nil. The caller holds mu.
func (r *Recorder) newest(uid types.UID) *v1.Pod {
	if l := r.checker.pods[uid]; l != nil {
		return l.spec
	}
	return nil
}

// viewUpdate adds an update to the pod's history. The caller holds mu.
func (r *Recorder) viewUpdate(e podworkers.TraceEvent) {
	pod := e.Update.Pod
	if e.Kind != podworkers.TraceUpdate || pod == nil {
		return
	}
	h := r.views.of(e.UID)
	if r.checker.pods[e.UID] == nil {
		h.begin()
	}
	h.updated(pod)
}

// blind returns an error for a view of running containers that has never listed one.
func (r *Recorder) blind() error {
	if r.views.running == nil || r.views.seen || r.views.synced == "" {
		return nil
	}
	return Violation{Rule: "blind", UID: r.views.synced, What: "SyncPod succeeded, but Running has never listed a container of any pod; " +
		"call it after a SyncPod and compare with the runtime: it may select by a label or ID that the syncer does not set"}
}

// judge reports violations. The caller holds mu.
func (r *Recorder) judge(uid types.UID, found ...[]finding) {
	for _, f := range slices.Concat(found...) {
		r.checker.report(Violation{Rule: f.rule, UID: uid, At: time.Now(), What: f.what})
	}
}

// viewErrors returns the errors of the views. The caller holds mu.
func (r *Recorder) viewErrors() error {
	return errors.Join(append(slices.Clone(r.views.errs), r.blind())...)
}

func (h *history) clone() *history {
	out := *h
	out.containers = map[string]*instance{}
	for name, i := range h.containers {
		copied := *i
		out.containers[name] = &copied
	}
	out.older = map[string]map[string]bool{}
	for name, images := range h.older {
		out.older[name] = maps.Clone(images)
	}
	return &out
}
