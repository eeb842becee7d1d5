package node

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podwright/podwright/internal/run"
	nodestatus "github.com/podwright/podwright/status/node"
)

const (
	maxTries = 5
	// minWakePause is the shortest time between a round and a requested one.
	minWakePause = time.Second
)

// rounds registers the node and keeps its status. One goroutine owns it.
type rounds struct {
	*Node
	wanted *v1.Node

	// last is the node from the last response, or nil if there is none.
	last *v1.Node
	// ours is true if this agent has created or corrected the node.
	ours    bool
	written nodestatus.Written
	// lastWritten is the last written status, or nil. attempted is the machine data of the last
	// attempt to write.
	lastWritten *v1.NodeStatus
	attempted   v1.NodeSystemInfo
	// wasReady is true if there were no reasons against readiness in the last facts.
	wasReady bool
	// begun is the start of Run. looked is true after the inputs of the existing node's status were
	// looked at, complete if the last look succeeded. gathered are the last facts.
	begun            time.Time
	looked, complete bool
	gathered         *nodestatus.Facts
}

func (r *rounds) run(ctx context.Context) error {
	for ctx.Err() == nil {
		r.register(ctx)
		err := r.round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		r.change(func(s *State) { s.Status = err })
		if r.last == nil { // the node was deleted: create it again at once
			continue
		}
		r.report("status", err)
		r.pause(ctx)
	}
	return nil
}

// pause waits until the next round is due, a round is requested, or the node's readiness changes.
// It polls NotReady, because not all of its sources report changes.
func (r *rounds) pause(ctx context.Context) {
	next := time.NewTimer(r.timing.Pause())
	defer next.Stop()
	gap := time.NewTimer(minWakePause)
	defer gap.Stop()
	var wake <-chan struct{}
	for {
		pause, starting := r.timing.Starting(r.begun, time.Now(), r.lastWritten)
		if !starting {
			pause = minWakePause
		}
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			return
		case <-gap.C:
			wake = r.wake
		case <-wake:
			return
		case <-time.After(pause):
			if isReady := len(r.cfg.NotReady()) == 0; isReady != r.wasReady {
				return
			}
		}
	}
}

// register creates the node or finds an existing one. It retries until it succeeds or ctx is done.
func (r *rounds) register(ctx context.Context) {
	for failures := 0; r.last == nil && ctx.Err() == nil; {
		err := r.tryRegister(ctx)
		if ctx.Err() != nil {
			return
		}
		r.change(func(s *State) { s.Status = err })
		r.report("registration", err)
		if err != nil {
			if failures++; failures > 1 {
				r.cfg.OnRepeatedFailure()
			}
			run.Sleep(ctx, backoff(failures))
		}
	}
}

func (r *rounds) tryRegister(ctx context.Context) error {
	if r.cfg.NoRegister {
		node, err := r.get(ctx)
		if err != nil {
			return fmt.Errorf("waiting until the node is created (registerNode is false): %w", err)
		}
		r.found(node)
		return nil
	}
	node := r.wanted.DeepCopy()
	facts := r.facts(ctx, node)
	if ctx.Err() != nil { // parts that stop are no facts about the node
		return ctx.Err()
	}
	node.Status = *nodestatus.Compute(nil, facts)
	r.cfg.OnRegister()
	made, err := r.create(ctx, node)
	switch {
	case err == nil:
		r.cfg.Logger.Info("node registered", "node", made.Name, "uid", made.UID)
		r.ours = true
		r.wrote(facts.Now, &v1.NodeStatus{}, made, true)
		return nil
	// Forbidden does not mean that the node is missing.
	case apierrors.IsAlreadyExists(err), apierrors.IsForbidden(err):
		existing, getErr := r.get(ctx)
		if getErr != nil {
			return fmt.Errorf("registering the node: %w; reading it: %w", err, getErr)
		}
		r.found(existing)
		return nil
	default:
		return fmt.Errorf("registering the node: %w", err)
	}
}

func (r *rounds) found(node *v1.Node) {
	r.cfg.Logger.Info("node already registered", "node", node.Name, "uid", node.UID)
	r.ours = false
	r.seen(node)
}

func (r *rounds) seen(node *v1.Node) {
	if was := r.last; was != nil && was.UID == node.UID && was.Spec.Unschedulable != node.Spec.Unschedulable {
		reason := "NodeSchedulable"
		if node.Spec.Unschedulable {
			reason = "NodeNotSchedulable"
		}
		r.event(v1.EventTypeNormal, reason, fmt.Sprintf("Node %s status is now: %s", node.Name, reason))
	}
	r.last = node
	if r.State().UID != node.UID {
		r.change(func(s *State) { s.UID = node.UID })
		r.uidChanged.Wake()
	}
}

// round reads the node and writes changes or due heartbeats.
func (r *rounds) round(ctx context.Context) (err error) {
	for try := range maxTries {
		if try > 0 && !run.Sleep(ctx, backoff(try)) {
			return err
		}
		if err = r.try(ctx, try == 0); err == nil || r.last == nil {
			return err
		}
		if ctx.Err() == nil && try > 0 {
			r.cfg.OnRepeatedFailure()
		}
	}
	return err
}

func (r *rounds) try(ctx context.Context, cached bool) error {
	if err := r.read(ctx, cached); err != nil {
		return err
	}
	old := r.last
	r.detectTwin(&old.Status.NodeInfo)
	node := old.DeepCopy()
	if !r.ours && !r.cfg.NoRegister {
		reconcile(node, r.wanted, r.cfg.ResetExtended)
	}
	refresh(node, r.wanted)
	facts := r.facts(ctx, node)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	node.Status = *nodestatus.Compute(&node.Status, facts)
	r.detectMove(&old.Status.NodeInfo, &node.Status.NodeInfo)
	differs := changed(old, node)
	if !r.timing.Due(r.written, facts.Now, differs) {
		r.cfg.OnNode(old)
		return nil
	}
	patch, err := StatusPatch(old, node)
	if err != nil {
		return err
	}
	r.attempted = node.Status.NodeInfo
	now, err := r.patch(ctx, patch)
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	r.ours = true
	r.wrote(facts.Now, &old.Status, now, differs)
	return nil
}

// read reads the node. If it was deleted or has another UID, the agent starts anew.
func (r *rounds) read(ctx context.Context, cached bool) error {
	node := (*v1.Node)(nil)
	if cached {
		node = newer(r.cfg.Cached(), r.last)
	}
	var err error
	if node == nil {
		node, err = r.get(ctx)
	}
	switch {
	case apierrors.IsNotFound(err):
		r.cfg.Logger.Warn("node was deleted; registering it again", "node", r.cfg.Name, "uid", r.last.UID)
		r.forget()
		return fmt.Errorf("the node was deleted: %w", err)
	case err != nil:
		return fmt.Errorf("reading the node: %w", err)
	case node.UID != r.last.UID:
		r.cfg.Logger.Warn("node was deleted and created again", "node", r.cfg.Name, "uid", r.last.UID, "now", node.UID)
		r.forget()
		r.found(node)
	}
	r.seen(node)
	return nil
}

func (r *rounds) forget() {
	r.last, r.lastWritten, r.written, r.ours = nil, nil, nodestatus.Written{}, false
	r.change(func(s *State) { s.UID, s.Ready = "", false })
}

// newer returns the watched node, or the last response if that is newer. It returns nil if a read
// is needed.
func newer(cached, known *v1.Node) *v1.Node {
	if cached == nil || known == nil || cached.UID != known.UID {
		return nil // the watch may lag behind, so read the node
	}
	seen, err1 := strconv.ParseUint(cached.ResourceVersion, 10, 64)
	last, err2 := strconv.ParseUint(known.ResourceVersion, 10, 64)
	if err1 == nil && err2 == nil && seen < last {
		return known
	}
	return cached
}

// wrote records a successful write, and records events about the changes.
func (r *rounds) wrote(at time.Time, old *v1.NodeStatus, node *v1.Node, differs bool) {
	first := r.lastWritten == nil
	r.written = r.timing.Wrote(r.written, at, differs)
	r.lastWritten = &node.Status
	r.seen(node)
	ready := nodestatus.Ready(&node.Status)
	r.change(func(s *State) { s.Written, s.Ready = at, ready })
	for _, e := range nodestatus.Events(r.cfg.Name, old, &node.Status) {
		// The machine does not reboot under a running agent: the old boot ID was another agent's.
		if e.Reason != "Rebooted" || first {
			r.event(e.Type, e.Reason, e.Message)
		}
	}
	r.cfg.OnNode(node)
}

// detectMove records that the node was another machine before. The Lease shows whether an agent
// still runs there.
func (r *rounds) detectMove(was, is *v1.NodeSystemInfo) {
	if r.lastWritten == nil && was.MachineID != "" && is.MachineID != was.MachineID {
		why := fmt.Sprintf("the node's status had the machine ID %s, not %s", was.MachineID, is.MachineID)
		r.Node.recordStart(func(s *start) { s.moved = why })
	}
}

// detectTwin compares the machine in the status with the machine that this agent wrote or tried to
// write.
func (r *rounds) detectTwin(is *v1.NodeSystemInfo) {
	if r.lastWritten == nil {
		return
	}
	was := &r.lastWritten.NodeInfo
	for _, id := range []struct{ name, is, was, tried string }{
		{"machine ID", is.MachineID, was.MachineID, r.attempted.MachineID},
		{"system UUID", is.SystemUUID, was.SystemUUID, r.attempted.SystemUUID},
		{"boot ID", is.BootID, was.BootID, r.attempted.BootID},
	} {
		if id.is != id.was && id.is != id.tried && id.is != "" && id.was != "" {
			r.twin(fmt.Sprintf("the node's status has the %s %s, not %s", id.name, id.is, id.was))
			return
		}
	}
}

// facts returns the current facts. If the addresses cannot be determined, the reported ones stay.
// Readiness ends only after a fresh look at the inputs: a runtime that has just returned is not
// down.
func (r *rounds) facts(ctx context.Context, node *v1.Node) nodestatus.Facts {
	fresh := r.lookIfStale(ctx)
	begun := time.Now()
	facts := r.gather(ctx, node)
	if r.awake.frozen() { // the deadlines of the calls have expired meanwhile
		fresh = r.look(ctx, time.Now().Add(lookTimeout))
		facts = r.gather(ctx, node)
	}
	if facts.Pressure == nil && nodestatus.Condition(&node.Status, v1.NodeMemoryPressure) == nil {
		facts.Pressure = &nodestatus.Pressure{} // a new node has its conditions from the start
	}
	facts.Now = time.Now()
	problems := r.cfg.NotReady()
	if len(problems) > 0 && !fresh && nodestatus.Ready(&node.Status) {
		_ = r.lookWithin(ctx, max(time.Second, r.cfg.CallTimeout-time.Since(begun)))
		problems = r.cfg.NotReady()
	}
	r.wasReady = len(problems) == 0
	facts.NotReady = slices.Concat(facts.NotReady, problems)
	addresses, err := bounded(ctx, r.Node, findAddresses, func(ctx context.Context) ([]v1.NodeAddress, error) {
		return r.cfg.Addressing.Addresses(ctx, node.Status.Addresses)
	})
	facts.Addresses = addresses
	r.report("addresses", err)
	return facts
}

// gather calls Config.Facts. If it hangs, the last facts stay, and the node is not ready.
func (r *rounds) gather(ctx context.Context, node *v1.Node) nodestatus.Facts {
	facts, err := bounded(ctx, r.Node, findFacts, func(ctx context.Context) (nodestatus.Facts, error) {
		return r.cfg.Facts(ctx), nil
	})
	switch {
	case err == nil:
		r.gathered = &facts
		return facts
	case r.gathered != nil:
		facts = *r.gathered
	default:
		facts.Port = node.Status.DaemonEndpoints.KubeletEndpoint.Port
	}
	facts.NotReady = []string{err.Error()}
	return facts
}

func (r *rounds) get(ctx context.Context) (*v1.Node, error) {
	return bounded(ctx, r.Node, getNode, func(ctx context.Context) (*v1.Node, error) {
		return r.cfg.Nodes.GetNode(ctx, r.cfg.Name)
	})
}

func (r *rounds) create(ctx context.Context, node *v1.Node) (*v1.Node, error) {
	return bounded(ctx, r.Node, createNode, func(ctx context.Context) (*v1.Node, error) {
		return r.cfg.Nodes.CreateNode(ctx, node)
	})
}

func (r *rounds) patch(ctx context.Context, patch []byte) (*v1.Node, error) {
	return bounded(ctx, r.Node, patchStatus, func(ctx context.Context) (*v1.Node, error) {
		return r.cfg.Nodes.PatchNodeStatus(ctx, r.cfg.Name, patch)
	})
}
