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

// ErrAlreadyRun is returned by a second Run.
var ErrAlreadyRun = errors.New("node: Run was called before")

// ErrShutdownTimeout is wrapped by Run's error if calls ignore their context.
var ErrShutdownTimeout = errors.New("still running after the shutdown timeout")

// ErrTwin is wrapped by Health's error while another agent seems to use the node's name.
var ErrTwin = errors.New("another agent has this node's name")

const (
	backoffFirst   = 100 * time.Millisecond
	backoffLongest = 7 * time.Second
)

// Node keeps one node of a cluster. Create it with New. It is safe for concurrent use.
type Node struct {
	cfg    Config
	timing nodestatus.Timing
	// wake requests a round. uidChanged is signalled when the node's UID changes.
	wake, uidChanged run.Signal

	calls run.Calls
	awake awake

	mu     sync.Mutex
	ran    bool
	state  State
	start  start
	faults map[string]fault
}

// State is the state of the node as the agent knows it.
type State struct {
	// UID is the node's UID, or "" before it was seen.
	UID types.UID
	// Ready is true if the last written status was ready.
	Ready bool
	// Written is the time of the last status write, Renewed of the last renewal of the Lease. Zero
	// means never.
	Written, Renewed time.Time
	// Status and Lease are the errors of the last attempts, or nil.
	Status, Lease error
	// Twin is the reason to assume another agent with this name, or "". TwinSeen is the time of the
	// last sign.
	Twin     string
	TwinSeen time.Time
}

// start contains an agent's findings at its start, which may come in any order. Both of them
// indicate another agent.
type start struct {
	// fresh is true if another agent had just renewed the Lease.
	fresh bool
	// moved describes the different machine in the node's old status, or is "".
	moved string
}

// New checks the configuration and returns a Node. The Node does nothing before Run.
func New(cfg Config) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Node{
		cfg:        cfg,
		timing:     nodestatus.Timing{Name: cfg.Name, Update: cfg.Update, Report: cfg.Report},
		wake:       run.NewSignal(),
		uidChanged: run.NewSignal(),
		faults:     map[string]fault{},
	}, nil
}

// Run registers the node and keeps its status and its Lease until ctx is done, then returns nil.
// Its writes end with ctx. The node stays in the API and its Lease expires. If calls do not return within ShutdownTimeout,
// the error wraps ErrShutdownTimeout and names them. A second call returns ErrAlreadyRun.
func (n *Node) Run(ctx context.Context) error {
	n.mu.Lock()
	again := n.ran
	n.ran = true
	n.mu.Unlock()
	if again {
		return ErrAlreadyRun
	}
	n.event(v1.EventTypeNormal, "Starting", "Starting kubelet.")
	rounds := &rounds{Node: n, wanted: n.cfg.wanted(), begun: time.Now()}
	leases := &leases{Node: n, interval: n.timing.Spread(n.cfg.LeaseDuration/4, "lease")}
	return errors.Join(run.All(ctx, rounds.run, leases.run, n.awake.run), n.waitForCalls(ctx))
}

// Wake requests a round before its time, after a change of facts. It never blocks.
func (n *Node) Wake() { n.wake.Wake() }

// State returns the current state.
func (n *Node) State() State {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.state
	if time.Since(s.TwinSeen) >= 2*n.cfg.LeaseDuration {
		s.Twin, s.TwinSeen = "", time.Time{}
	}
	return s
}

// Health returns the current failures, or nil. The error wraps ErrTwin while another agent seems to
// use the name.
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

func (n *Node) change(f func(*State)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(&n.state)
}

type fault struct {
	text   string
	logged time.Time
}

// report logs the state of a part: the first failure at once, a different one at most once a minute
// (network errors vary each time), and the recovery.
func (n *Node) report(part string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	was, ill := n.faults[part]
	switch {
	case err == nil && ill:
		delete(n.faults, part)
		n.cfg.Logger.Info("reporting the node works again", "node", n.cfg.Name, "part", part)
	case err != nil && (!ill || was.text != err.Error() && time.Since(was.logged) >= time.Minute):
		n.faults[part] = fault{err.Error(), time.Now()}
		n.cfg.Logger.Error("cannot report the node to the API server; trying again", "node", n.cfg.Name, "part", part, "err", err)
	}
}

// twin records signs of another agent with this name. It logs the first one only, until they stop.
func (n *Node) twin(why string) {
	known := n.State().Twin != ""
	n.change(func(s *State) { s.Twin, s.TwinSeen = why, time.Now() })
	if !known {
		n.cfg.Logger.Error("another agent seems to use the name of this node; change one of the names (--hostname-override)",
			"node", n.cfg.Name, "why", why)
	}
}

func (n *Node) recordStart(found func(*start)) {
	n.mu.Lock()
	found(&n.start)
	s := n.start
	n.mu.Unlock()
	if s.fresh && s.moved != "" {
		n.twin("the lease was renewed just before this agent started, and " + s.moved)
	}
}

func (n *Node) event(eventtype, reason, message string) {
	n.cfg.Logger.Info(message, "node", n.cfg.Name, "reason", reason)
	// kubectl describe finds a node's events by its UID, and by its name as UID. The UID is unknown
	// before the registration.
	n.cfg.Event(v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.cfg.Name, UID: types.UID(n.cfg.Name)}, eventtype, reason, message)
}

// The names of the agent's calls. At most one call of each name runs at a time.
const (
	lookAtInputs  = "looking at the inputs of the status"
	findFacts     = "gathering facts"
	findAddresses = "finding addresses"
	getNode       = "reading the node"
	createNode    = "creating the node"
	patchStatus   = "writing the status"
	getLease      = "reading the lease"
	createLease   = "creating the lease"
	updateLease   = "renewing the lease"
)

// deadlineMargin is the time for a call to end after its deadline.
const deadlineMargin = time.Second

// bounded calls f with a deadline. It abandons a call that ignores the deadline; the next call of
// the same name waits for it.
func bounded[T any](ctx context.Context, n *Node, what string, f func(context.Context) (T, error)) (result T, err error) {
	call, cancel := context.WithTimeout(ctx, n.cfg.CallTimeout)
	defer cancel()
	wait, done := context.WithTimeout(ctx, n.cfg.CallTimeout+deadlineMargin)
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

// waitForCalls waits for abandoned calls, and returns an error that names the calls still running.
func (n *Node) waitForCalls(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.ShutdownTimeout)
	defer cancel()
	var errs []error
	for _, what := range []string{lookAtInputs, findFacts, findAddresses, getNode, createNode, patchStatus, getLease, createLease, updateLease} {
		if err := n.calls.Do(ctx, "node "+n.cfg.Name+":", what, func() error { return nil }); err != nil {
			errs = append(errs, fmt.Errorf("node: %w: %w", ErrShutdownTimeout, err))
		}
	}
	return errors.Join(errs...)
}

func backoff(failures int) time.Duration {
	if failures > 7 {
		return backoffLongest
	}
	return min(backoffFirst<<max(0, failures-1), backoffLongest)
}
