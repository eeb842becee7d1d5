package plegtest

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/pleg/observed"
)

// repeatCases are the rules about repeated and concurrent queries.
func repeatCases() []testCase {
	return []testCase{
		{"the caller owns each result", ownedAnswers},
		{"a cancelled context gives an error or a complete result", endedContext},
		{"changes of other pods do not affect queries", churn},
	}
}

// ownedAnswers changes a result, which must not change the next result, and the pod, which must
// not change an earlier result.
func ownedAnswers(ctx context.Context, p *trial) {
	uid := p.started(ctx)
	o, s := p.both(ctx, uid)
	if p.failed() {
		return
	}
	o.Containers[0].State, s.Containers[0].State = observed.StateUnknown, observed.StateUnknown
	o, s = p.both(ctx, uid)
	runs := func() bool {
		return p.failed() || o.Containers[0].State == observed.StateRunning && s.Containers[0].State == observed.StateRunning
	}
	if !runs() {
		p.fail("a result contains the caller's changes of an earlier result")
	}
	p.exit(ctx, uid)
	if !runs() {
		p.fail("a result changes after it was returned")
	}
}

func endedContext(ctx context.Context, p *trial) {
	uid := p.started(ctx)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	list, err := p.Runtime.ListPods(ended)
	if err == nil && !slices.ContainsFunc(list, func(o observed.ListedPod) bool { return o.UID == uid }) {
		p.fail("ListPods returned an incomplete list and no error with a cancelled context")
	}
	if s, err := p.Runtime.PodStatus(ended, uid); err == nil && (s == nil || len(s.Containers) == 0) {
		p.fail("PodStatus returned an incomplete status and no error with a cancelled context")
	}
}

const (
	churners    = 3 // pods that come and go
	churnRounds = 2 // rounds of each
	queriers    = 4 // goroutines that query
	// queryPause is the pause between two queries, so that time passes in a bubble.
	queryPause = time.Millisecond
)

// churn starts and removes pods while goroutines query them and a steady one.
func churn(ctx context.Context, p *trial) {
	steady := p.started(ctx)
	var churning, querying sync.WaitGroup
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var coming []types.UID
	for range churners {
		coming = append(coming, p.newUID())
	}
	for _, uid := range coming {
		churning.Go(func() {
			for range churnRounds {
				p.start(ctx, uid)
				p.exit(ctx, uid)
				p.remove(ctx, uid)
			}
		})
	}
	for i := range queriers {
		querying.Go(func() {
			for n := 0; !p.failed() && run.Sleep(watching, queryPause); n++ {
				p.queryBoth(ctx, steady, coming[(i+n)%len(coming)])
			}
		})
	}
	churning.Wait()
	p.queryBoth(ctx, steady, coming[0])
	stop()
	querying.Wait()
}

// queryBoth queries the steady pod and one that comes or goes.
func (p *trial) queryBoth(ctx context.Context, steady, coming types.UID) {
	p.all(ctx, steady, observed.StateRunning)
	p.status(ctx, coming)
}
