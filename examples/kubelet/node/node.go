package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	nodestatus "github.com/podwright/podwright/status/node"
)

// ErrAlreadyRun is returned by every Run but the first.
var ErrAlreadyRun = errors.New("node: Run was called before")

// ErrShutdownTimeout is wrapped by Run's error when calls ignore their context.
var ErrShutdownTimeout = errors.New("still running after the shutdown timeout")

// ErrTwin is wrapped by the error of Health while another agent seems to run under the
// node's name.
var ErrTwin = errors.New("another agent has this node's name")

const (
	backoffFirst   = 100 * time.Millisecond
	backoffLongest = 7 * time.Second
)

// Node keeps one node of a cluster. Use New.
type Node struct {
	cfg    Config
	timing nodestatus.Timing
	// wake asks for a round; named tells that the node's UID has become known.
	wake, named run.Signal

	calls run.Calls

	mu    sync.Mutex
	ran   bool
	state State
	start start
	// faults are what is wrong, by part.
	faults map[string]fault
}

// State is what is known of the node.
type State struct {
	// UID is the node's, "" before it was seen.
	UID types.UID
	// Ready tells whether the API was told that the node is ready.
	Ready bool
	// Written is when the status was written last, Renewed the Lease. Zero: never.
	Written, Renewed time.Time
	// Status and Lease are why the last try of each has failed, nil if it did not.
	Status, Lease error
	// Twin is why another agent seems to run under the name, TwinSeen when that showed
	// last. "": none does.
	Twin     string
	TwinSeen time.Time
}

// start is what an agent has found at its start. Both together are a twin; either may be
// found first.
type start struct {
	// fresh: somebody had just renewed the Lease.
	fresh bool
	// moved is which other machine the node was, "" if none.
	moved string
}

// New returns a Node. Nothing happens before Run.
func New(cfg Config) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Node{
		cfg:    cfg,
		timing: nodestatus.Timing{Name: cfg.Name, Update: cfg.Update, Report: cfg.Report},
		wake:   run.NewSignal(),
		named:  run.NewSignal(),
		faults: map[string]fault{},
	}, nil
}

// Run registers the node and keeps its status and its Lease until ctx ends, then returns
// nil. The node stays in the API: its Lease runs out. If calls do not return within
// ShutdownTimeout the error wraps ErrShutdownTimeout and names them. A second Run is
// ErrAlreadyRun.
func (n *Node) Run(ctx context.Context) error {
	n.mu.Lock()
	again := n.ran
	n.ran = true
	n.mu.Unlock()
	if again {
		return ErrAlreadyRun
	}
	n.event(v1.EventTypeNormal, "Starting", "Starting kubelet.")
	rounds := &rounds{Node: n, wanted: n.cfg.wanted()}
	leases := &leases{Node: n, interval: n.timing.Spread(n.cfg.LeaseDuration/4, "lease")}
	return errors.Join(run.All(ctx, rounds.run, leases.run), n.leave(ctx))
}

// Wake tells that the facts may be others: a round follows soon, instead of at its time.
// It never blocks.
func (n *Node) Wake() { n.wake.Wake() }

// State returns what is known of the node.
func (n *Node) State() State {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.state
	if time.Since(s.TwinSeen) >= 2*n.cfg.LeaseDuration {
		s.Twin, s.TwinSeen = "", time.Time{}
	}
	return s
}

// Health is what is wrong, nil if nothing is. It wraps ErrTwin while another agent seems to
// run under the name.
func (n *Node) Health() error {
	s := n.State()
	var twin, unseen error
	if s.Twin != "" {
		twin = fmt.Errorf("%w: %s", ErrTwin, s.Twin)
	}
	if s.UID == "" && s.Status == nil {
		unseen = errors.New("not registered yet")
	}
	return errors.Join(unseen, s.Status, s.Lease, twin)
}

// change changes the state.
func (n *Node) change(f func(*State)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(&n.state)
}

// fault is what was logged last of a part that is not well.
type fault struct {
	text   string
	logged time.Time
}

// report logs what is wrong with a part: at once when it was well, once a minute at most
// when it is something else, since texts of the network differ each time; and that it is
// well again.
func (n *Node) report(part string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	was, ill := n.faults[part]
	switch {
	case err == nil && ill:
		delete(n.faults, part)
		n.cfg.Logger.Info("well again", "node", n.cfg.Name, "part", part)
	case err != nil && (!ill || was.text != err.Error() && time.Since(was.logged) >= time.Minute):
		n.faults[part] = fault{err.Error(), time.Now()}
		n.cfg.Logger.Error("cannot tell the API of this node; trying again", "node", n.cfg.Name, "part", part, "err", err)
	}
}

// twin notes that another agent seems to run under the name. It is logged once as long as
// it goes on.
func (n *Node) twin(why string) {
	known := n.State().Twin != ""
	n.change(func(s *State) { s.Twin, s.TwinSeen = why, time.Now() })
	if !known {
		n.cfg.Logger.Error("another agent seems to run under the name of this node; one of them must get another name (--hostname-override)",
			"node", n.cfg.Name, "why", why)
	}
}

// begin notes what was found at the start.
func (n *Node) begin(found func(*start)) {
	n.mu.Lock()
	found(&n.start)
	s := n.start
	n.mu.Unlock()
	if s.fresh && s.moved != "" {
		n.twin("the lease was renewed just before this agent began, and " + s.moved)
	}
}

func (n *Node) event(eventtype, reason, message string) {
	n.cfg.Logger.Info(message, "node", n.cfg.Name, "reason", reason)
	// kubectl describe looks for a node's events by its UID, and by its name as a UID: the UID
	// is not known before the node is.
	n.cfg.Event(v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.cfg.Name, UID: types.UID(n.cfg.Name)}, eventtype, reason, message)
}

// What the agent calls: one call of each at a time.
const (
	findFacts     = "finding out facts"
	findAddresses = "finding addresses"
	getNode       = "reading the node"
	createNode    = "making the node"
	patchStatus   = "writing the status"
	getLease      = "reading the lease"
	createLease   = "making the lease"
	updateLease   = "renewing the lease"
)

// hurry is how long a call may take to end when its time is over.
const hurry = time.Second

// bounded calls f with a deadline. A call that ignores it is left behind; the next one of
// its kind waits for it.
func bounded[T any](ctx context.Context, n *Node, what string, f func(context.Context) (T, error)) (result T, err error) {
	call, cancel := context.WithTimeout(ctx, n.cfg.CallTimeout)
	defer cancel()
	wait, done := context.WithTimeout(ctx, n.cfg.CallTimeout+hurry)
	defer done()
	answers := make(chan T, 1)
	err = n.calls.Do(wait, "node "+n.cfg.Name+":", what, func() error {
		answer, err := f(call)
		answers <- answer
		return err
	})
	if err != nil {
		return result, err
	}
	return <-answers, nil
}

// leave waits for calls that were left behind, and names those that do not end.
func (n *Node) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.ShutdownTimeout)
	defer cancel()
	var errs []error
	for _, what := range []string{findFacts, findAddresses, getNode, createNode, patchStatus, getLease, createLease, updateLease} {
		if err := n.calls.Do(ctx, "node "+n.cfg.Name+":", what, func() error { return nil }); err != nil {
			errs = append(errs, fmt.Errorf("node: %w: %w", ErrShutdownTimeout, err))
		}
	}
	return errors.Join(errs...)
}

// backoff is the pause after so many failures in a row.
func backoff(failures int) time.Duration {
	if failures > 7 {
		return backoffLongest
	}
	return min(backoffFirst<<max(0, failures-1), backoffLongest)
}
