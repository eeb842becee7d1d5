package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

type renewal struct {
	name     string
	duration time.Duration
	owner    types.UID // of the node, "" before the node was seen
	now      time.Time
}

// of returns the renewed Lease based on base, or a new one if base is nil.
func (r renewal) of(base *coordinationv1.Lease) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: r.name, Namespace: LeaseNamespace}}
	if base != nil {
		lease = base.DeepCopy()
	}
	seconds, now := int32(r.duration/time.Second), metav1.NewMicroTime(r.now.Truncate(time.Microsecond))
	lease.Spec.HolderIdentity = &r.name
	lease.Spec.LeaseDurationSeconds = &seconds
	lease.Spec.RenewTime = &now
	if r.owner != "" {
		lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: r.name, UID: r.owner}}
	}
	return lease
}

// leases renews the Lease. One goroutine owns it.
type leases struct {
	*Node
	interval time.Duration

	// last is the Lease from the last response. nil forces a read.
	last *coordinationv1.Lease
	// renewedOnce is true after this agent's first renewal; renewed is the time of the last one. The
	// API may also have accepted the unanswered attempts between unsureFrom and unsureTo.
	renewedOnce          bool
	renewed              time.Time
	unsureFrom, unsureTo time.Time
}

func (l *leases) run(ctx context.Context) error {
	failures := 0
	for ctx.Err() == nil {
		err := l.renew(ctx)
		if ctx.Err() != nil {
			return nil
		}
		pause := l.interval
		if failures++; err == nil {
			failures = 0
		} else {
			pause = backoff(failures)
		}
		l.change(func(s *State) { s.Lease = err })
		if !errors.Is(err, errNoNode) {
			l.report("lease", err)
			if failures > 1 {
				l.cfg.OnRepeatedFailure()
			}
		}
		l.pause(ctx, pause)
	}
	return nil
}

// pause waits until the next renewal is due or the node's UID becomes known.
func (l *leases) pause(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-l.uidChanged:
	case <-timer.C:
	}
}

// errNoNode is returned before the node exists, because it must own the Lease.
var errNoNode = errors.New("waiting for the Node, which must own the lease")

// renew renews the Lease. A conflict means that another client wrote it, or that a response was
// lost. renew then reads the Lease and retries once.
func (l *leases) renew(ctx context.Context) error {
	err := l.tryRenew(ctx)
	if apierrors.IsConflict(err) {
		err = l.tryRenew(ctx)
	}
	return err
}

func (l *leases) tryRenew(ctx context.Context) error {
	if l.last == nil {
		if err := l.read(ctx); err != nil {
			return err
		}
	}
	if l.last == nil {
		return l.create(ctx)
	}
	return l.update(ctx)
}

// read reads the Lease. last stays nil if it does not exist.
func (l *leases) read(ctx context.Context) error {
	lease, err := bounded(ctx, l.Node, getLease, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return l.cfg.Leases.GetLease(ctx, l.cfg.Name)
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the lease: %w", err)
	}
	l.detectTwin(lease)
	l.last = lease
	return nil
}

func (l *leases) create(ctx context.Context) error {
	next := l.next(nil)
	if len(next.OwnerReferences) == 0 {
		return errNoNode
	}
	made, err := bounded(ctx, l.Node, createLease, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return l.cfg.Leases.CreateLease(ctx, next)
	})
	return l.record(next, made, err)
}

func (l *leases) update(ctx context.Context) error {
	next := l.next(l.last)
	updated, err := bounded(ctx, l.Node, updateLease, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return l.cfg.Leases.UpdateLease(ctx, next)
	})
	return l.record(next, updated, err)
}

func (l *leases) next(base *coordinationv1.Lease) *coordinationv1.Lease {
	return renewal{name: l.cfg.Name, duration: l.cfg.LeaseDuration, owner: l.State().UID, now: time.Now()}.of(base)
}

func (l *leases) record(sent, got *coordinationv1.Lease, err error) error {
	at := sent.Spec.RenewTime.Time
	switch {
	case err == nil:
		l.last, l.renewedOnce, l.renewed = got, true, at
		l.unsureFrom, l.unsureTo = time.Time{}, time.Time{}
		l.change(func(s *State) { s.Renewed = at })
		return nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		l.last = nil // the known version is outdated
	default:
		if l.unsureTo = at; l.unsureFrom.IsZero() {
			l.unsureFrom = at
		}
	}
	return fmt.Errorf("renewing the lease: %w", err)
}

// detectTwin detects renewals that are not by this agent. Before its own first renewal, they are
// by its predecessor.
func (l *leases) detectTwin(lease *coordinationv1.Lease) {
	var renewed time.Time
	if lease.Spec.RenewTime != nil {
		renewed = lease.Spec.RenewTime.Time
	}
	holder := lease.Spec.HolderIdentity
	switch {
	case holder != nil && *holder != "" && *holder != l.cfg.Name:
		l.twin(fmt.Sprintf("the lease has the holder %q", *holder))
	case !l.renewedOnce:
		if time.Since(renewed).Abs() < l.cfg.LeaseDuration {
			l.recordStart(func(s *start) { s.fresh = true })
		}
	case !renewed.Equal(l.renewed) && (renewed.Before(l.unsureFrom) || renewed.After(l.unsureTo)):
		l.twin(fmt.Sprintf("another client renewed the lease at %s", renewed.UTC().Format(time.RFC3339Nano)))
	}
}
