package eventsourcetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop"
)

// together is several sources run as one: the first one, which emits, and those
// that feed it.
func together(sources []syncloop.EventSource) syncloop.EventSource {
	return syncloop.EventSourceFunc(func(ctx context.Context, emit func(syncloop.Event)) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		errs := make([]error, len(sources))
		var all sync.WaitGroup
		for i, src := range sources {
			all.Go(func() {
				if errs[i] = src.Run(ctx, emit); i == 0 || errs[i] != nil {
					stop()
				}
			})
		}
		all.Wait()
		return errors.Join(errs...)
	})
}

// toucher returns a Touch for a source of pods: each call is a set with a pod that
// was never there before.
func toucher(sub PodsSubject) func() syncloop.Event {
	var mu sync.Mutex
	n := 0
	return func() syncloop.Event {
		mu.Lock()
		defer mu.Unlock()
		n++
		sub.Set([]*v1.Pod{pod("touched", types.UID(fmt.Sprint("touched-", n)), "x")})
		return syncloop.Event{Kind: syncloop.PodsChanged, Source: sub.Source}
	}
}
