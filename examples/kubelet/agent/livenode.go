package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
)

// liveNode reads the Node from the server for pods that do not match the watched copy: the copy may
// miss recent labels for which the scheduler chose the node. Admission must not block, so the pod
// waits, and admission is retried after the read. One read serves all waiting pods.
type liveNode struct {
	get  func(ctx context.Context) (*v1.Node, error)
	wake run.Signal

	mu      sync.Mutex
	results map[types.UID]*liveResult
}

// liveResult is the result of a read for one pod. at is zero before the read.
type liveResult struct {
	at   time.Time
	node *v1.Node
	err  error
}

// liveTimeout bounds one read. liveExpiry is the time after which an unused result is dropped, such
// as the result for a deleted pod.
const liveTimeout, liveExpiry = 10 * time.Second, time.Minute

func newLiveNode(get func(ctx context.Context) (*v1.Node, error)) *liveNode {
	return &liveNode{get: get, wake: run.NewSignal(), results: map[types.UID]*liveResult{}}
}

func (l *liveNode) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
		}
		l.read(ctx)
	}
}

func (l *liveNode) read(ctx context.Context) {
	var waiting []*liveResult
	l.mu.Lock()
	for uid, a := range l.results {
		switch {
		case a.at.IsZero():
			waiting = append(waiting, a)
		case time.Since(a.at) > liveExpiry:
			delete(l.results, uid)
		}
	}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	node, err := l.get(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range waiting {
		a.at, a.node, a.err = time.Now(), node, err
	}
}

// take returns the Node as read after the first call for a pod, or nil before the read. It consumes
// the result: the next call starts a new read. It never blocks.
func (l *liveNode) take(uid types.UID) (*v1.Node, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.results[uid]
	switch {
	case a == nil:
		l.results[uid] = &liveResult{}
		l.wake.Wake()
		return nil, nil
	case a.at.IsZero():
		return nil, nil
	}
	delete(l.results, uid)
	return a.node, a.err
}

// rightNode rejects a pod whose node selector or affinity does not match this node. Without an API
// server local is this node.
func (c *cluster) rightNode(pod *v1.Pod, local *v1.Node) error {
	seen := c.thisNode()
	err := errors.Join(admission.OtherNode(pod, cmp.Or(seen, local))...)
	switch {
	case err == nil:
		return nil
	case c == nil:
		return syncloop.Reject(reasonNodeAffinity, "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector")
	case seen == nil:
		return fmt.Errorf("waiting for the first read of the Node, because its labels at the API server may match: %w", err)
	}
	live, failed := c.live.take(pod.UID)
	switch {
	case failed != nil:
		return fmt.Errorf("cannot read the Node again: %w; at the last read: %w", failed, err)
	case live == nil:
		return fmt.Errorf("reading the Node again before the pod is rejected: %w", err)
	}
	if err := errors.Join(admission.OtherNode(pod, live)...); err != nil {
		return syncloop.Reject(reasonNodeAffinity, "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector")
	}
	return nil
}

const reasonNodeAffinity = "NodeAffinity"
