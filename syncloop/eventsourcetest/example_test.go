package eventsourcetest_test

import (
	"context"
	"testing"

	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/eventsourcetest"
)

// doorbell is a source whose channel receives events of its users.
type doorbell struct{ rings chan syncloop.Event }

func (d doorbell) Run(ctx context.Context, emit func(syncloop.Event)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-d.rings:
			emit(e)
		}
	}
}

// A test of a source. The suite finds that a thousand events without a Run fill the channel.
func Example() {
	test := func(t *testing.T) { // in a test file: func TestDoorbell(t *testing.T)
		eventsourcetest.Run(t, eventsourcetest.Config{
			New: func(testing.TB) eventsourcetest.Subject {
				d := doorbell{make(chan syncloop.Event, 1000)}
				return eventsourcetest.Subject{
					Source: d,
					Touch: func() syncloop.Event {
						e := syncloop.Event{Kind: syncloop.PodDirty, UID: "uid-1"}
						d.rings <- e
						return e
					},
				}
			},
		})
	}
	_ = test // go test runs it
}
