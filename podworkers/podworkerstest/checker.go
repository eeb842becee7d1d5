package podworkerstest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
)

// Checker finds violations of the pod lifecycle in a trace. It uses only the events and shares
// no code with the workers. Use NewChecker; a Recorder has one. It is not safe for concurrent
// use.
type Checker struct {
	// CancelLimit is the longest duration of a call after its cancellation. Zero means
	// unlimited.
	CancelLimit time.Duration
	// standIns has the pods whose running call is scripted, which has no CancelLimit.
	standIns map[types.UID]bool

	rules    *rules
	pods     map[types.UID]*life
	ends     map[types.UID]time.Time // of the last call, also of forgotten pods
	done     map[chan<- struct{}]waiter
	openDone map[types.UID]int // number of open done channels
	names    map[string]*name
	open     bool // between start and end of Run
	known    bool // SyncKnownPods was called
	input    podworkers.TraceKind
	inputAt  time.Time
	touched  []types.UID // by the last input and its decisions
	broken   []Violation
}

// life is the state of one UID from its first update until it is forgotten.
type life struct {
	state  podworkers.State
	spec   *v1.Pod // newest accepted; nil: no spec
	acted  *v1.Pod // of the last call
	static string  // full name, empty: not static

	ending, observed, orphaned            bool
	deleted, evicted, restart             bool
	terminating, terminated, begun        bool // such a call has begun
	stopped, cleaned, removed, mustForget bool // results of the last calls and inputs
	callDue                               bool // a call is due

	running     podworkers.Call
	cancelledAt time.Time // of the running call
	failedAt    time.Time // of the last call, zero after success
	timed       bool      // the failure has a NotBefore time
	passed      int64     // grace period of the running or last terminating call
	grace       int64     // effective, zero: unset
	status      func(*v1.PodStatus)
}

// waiter is a KillOptions.Done.
type waiter struct {
	uid    types.UID
	closed bool
}

// name is the order among static pods of one full name.
type name struct {
	line    []types.UID // without a call so far
	holders []types.UID // with a call, and not finished
}

// NewChecker returns a Checker for the trace of new Workers.
func NewChecker() *Checker {
	return &Checker{
		rules: newRules(), standIns: map[types.UID]bool{},
		pods: map[types.UID]*life{}, ends: map[types.UID]time.Time{},
		done: map[chan<- struct{}]waiter{}, openDone: map[types.UID]int{}, names: map[string]*name{},
	}
}

// Event processes the next event of the trace.
func (c *Checker) Event(e podworkers.TraceEvent) {
	if e.Kind.Input() {
		c.Settle(e.At)
		c.input, c.inputAt = e.Kind, e.At
	}
	if e.UID != "" {
		c.touched = append(c.touched, e.UID)
	}
	switch e.Kind {
	case podworkers.TraceUpdate:
		c.updated(e)
	case podworkers.TraceKnown:
		c.desired(e)
	case podworkers.TraceRun:
		c.ran()
	case podworkers.TraceStop:
		c.open = false
	case podworkers.TraceEnd:
		c.ended(e)
	case podworkers.TraceState:
		c.moved(e)
	case podworkers.TraceCancel:
		c.cancelled(e)
	case podworkers.TraceDone:
		c.closed(e)
	case podworkers.TraceStart:
		c.started(e)
	}
}

// Settle checks the rules that apply once all decisions upon the last input are in the trace.
// Event calls it before each input.
func (c *Checker) Settle(now time.Time) {
	for _, uid := range c.touched {
		if l := c.pods[uid]; l != nil {
			c.judge(c.rules.settled, l, &podworkers.TraceEvent{At: now, UID: uid})
		} else if c.waiting(uid) {
			c.report(Violation{Rule: "INV-14", UID: uid, At: now, What: "was forgotten, but its done channel is open"})
		}
	}
	c.touched = c.touched[:0]
}

func (c *Checker) report(v Violation) {
	if l := c.pods[v.UID]; l != nil && l.spec != nil {
		v.Pod = l.spec.Namespace + "/" + l.spec.Name
	}
	c.broken = append(c.broken, v)
}

// Violations returns the violations so far.
func (c *Checker) Violations() []Violation { return slices.Clone(c.broken) }

// Err returns the violations as one error, or nil. errors.As finds each of them.
func (c *Checker) Err() error {
	errs := make([]error, len(c.broken))
	for i, v := range c.broken {
		errs[i] = v
	}
	return errors.Join(errs...)
}

func (c *Checker) judge(rules []rule, l *life, e *podworkers.TraceEvent) {
	for _, r := range rules {
		if what := r.broken(c, l, e); what != "" {
			c.report(Violation{Rule: r.id, UID: e.UID, At: e.At, What: what})
		}
	}
}

// Clone returns an independent copy, for explorations of several continuations.
func (c *Checker) Clone() *Checker {
	n := *c
	n.pods = make(map[types.UID]*life, len(c.pods))
	for uid, l := range c.pods {
		copied := *l
		n.pods[uid] = &copied
	}
	n.ends = maps.Clone(c.ends)
	n.done, n.openDone = maps.Clone(c.done), maps.Clone(c.openDone)
	n.names = make(map[string]*name, len(c.names))
	for full, s := range c.names {
		n.names[full] = &name{line: slices.Clone(s.line), holders: slices.Clone(s.holders)}
	}
	n.touched, n.broken = slices.Clone(c.touched), slices.Clone(c.broken)
	return &n
}

// String returns the state of each pod, without times. Checkers with the same string judge
// future events alike.
func (c *Checker) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "open %t known %t\n", c.open, c.known)
	for _, uid := range slices.Sorted(maps.Keys(c.pods)) {
		l := c.pods[uid]
		for _, word := range []string{
			string(uid), l.state.String(), l.running.String(), l.static, strconv.FormatInt(l.grace, 10), strconv.FormatInt(l.passed, 10),
			rev(l.spec), rev(l.acted), "",
		} {
			b.WriteString(word + " ")
		}
		for _, flag := range []bool{
			l.ending, l.observed, l.orphaned, l.deleted, l.evicted, l.restart, l.terminating, l.terminated, l.begun, l.stopped,
			l.cleaned, l.removed, l.mustForget, l.callDue, !l.cancelledAt.IsZero(), !l.failedAt.IsZero(), l.status != nil, c.waiting(uid),
		} {
			b.WriteByte("-x"[btoi(flag)])
		}
		b.WriteByte('\n')
	}
	for _, full := range slices.Sorted(maps.Keys(c.names)) {
		fmt.Fprintln(&b, full, c.names[full].holders, c.names[full].line)
	}
	return b.String()
}

// waiting reports whether a done channel of the pod is open.
func (c *Checker) waiting(uid types.UID) bool { return c.openDone[uid] > 0 }

func rev(pod *v1.Pod) string {
	if pod == nil {
		return "none"
	}
	return "rev" + pod.ResourceVersion
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
