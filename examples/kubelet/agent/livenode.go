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

// liveNode reads the Node for pods that the watched one seems not to suit: it may lag behind
// the labels for which a scheduler has chosen it. Admission must not wait, so a pod is held
// back, and asked about again when there is an answer: one read is for all that wait.
type liveNode struct {
	get  func(ctx context.Context) (*v1.Node, error)
	wake run.Signal

	mu      sync.Mutex
	answers map[types.UID]*liveAnswer
}

// liveAnswer is what a pod waits for; at is zero until it is there.
type liveAnswer struct {
	at   time.Time
	node *v1.Node
	err  error
}

// One read may take liveTimeout. An answer that nobody takes is that of a pod that has gone
// meanwhile; it is kept for liveKept.
const liveTimeout, liveKept = 10 * time.Second, time.Minute

func newLiveNode(get func(ctx context.Context) (*v1.Node, error)) *liveNode {
	return &liveNode{get: get, wake: run.NewSignal(), answers: map[types.UID]*liveAnswer{}}
}

// run reads when somebody waits, until ctx ends.
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
	var waiting []*liveAnswer
	l.mu.Lock()
	for uid, a := range l.answers {
		switch {
		case a.at.IsZero():
			waiting = append(waiting, a)
		case time.Since(a.at) > liveKept:
			delete(l.answers, uid)
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

// take returns the Node as it was read after the first call for a pod, which begins anew
// then; nil before there is an answer. It never blocks.
func (l *liveNode) take(uid types.UID) (*v1.Node, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.answers[uid]
	switch {
	case a == nil:
		l.answers[uid] = &liveAnswer{}
		l.wake.Wake()
		return nil, nil
	case a.at.IsZero():
		return nil, nil
	}
	delete(l.answers, uid)
	return a.node, a.err
}

// rightNode rejects a pod that asks for another node than this one. Without an API server local is this
// node.
func (c *cluster) rightNode(pod *v1.Pod, local *v1.Node) error {
	seen := c.thisNode()
	err := errors.Join(admission.OtherNode(pod, cmp.Or(seen, local))...)
	switch {
	case err == nil:
		return nil
	case c == nil:
		return syncloop.Reject(reasonNodeAffinity, "%v", err)
	case seen == nil:
		return fmt.Errorf("the Node of this agent was not seen yet, with what others have labelled it: %w", err)
	}
	live, failed := c.live.take(pod.UID)
	switch {
	case failed != nil:
		return fmt.Errorf("the Node of this agent cannot be read anew: %w; as it was seen last: %w", failed, err)
	case live == nil:
		return fmt.Errorf("the Node of this agent is read anew before the pod is refused: %w", err)
	}
	if err := errors.Join(admission.OtherNode(pod, live)...); err != nil {
		return syncloop.Reject(reasonNodeAffinity, "%v", err)
	}
	return nil
}

const reasonNodeAffinity = "NodeAffinity"
