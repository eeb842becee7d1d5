package plegtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/pleg"
)

// observer is a running PLEG with its events of containers.
type observer struct {
	*pleg.PLEG
	more run.Signal

	mu     sync.Mutex
	events []report
}

type report struct {
	pleg.Event
	at time.Time
}

func (o *observer) record(e pleg.Event) {
	if e.Sandbox {
		return
	}
	o.mu.Lock()
	o.events = append(o.events, report{e, time.Now()})
	o.mu.Unlock()
	o.more.Wake()
}

// when waits for an event of a container of the pod, and returns its time. It drops earlier
// events.
func (o *observer) when(ctx context.Context, uid types.UID, what pleg.EventType) (time.Time, error) {
	for {
		if at, ok := o.take(uid, what); ok {
			return at, nil
		}
		select {
		case <-o.more:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("the PLEG reported no container of pod %s as %s: %w", uid, what, ctx.Err())
		}
	}
}

func (o *observer) take(uid types.UID, what pleg.EventType) (time.Time, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, e := range o.events {
		if e.UID == uid && e.Type == what {
			o.events = o.events[i+1:]
			return e.at, true
		}
	}
	return time.Time{}, false
}
