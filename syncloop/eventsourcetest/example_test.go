package eventsourcetest_test

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/eventsourcetest"
	"github.com/podwright/podwright/syncloop/podsource"
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

func TestDoorbell(t *testing.T) {
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

func TestPods(t *testing.T) {
	eventsourcetest.RunPods(t, func(t testing.TB) eventsourcetest.PodsSubject {
		merger, err := podsource.NewMerger(podsource.MergerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		sets := make(chan []*v1.Pod, 10)
		feed, err := podsource.FromChannel(merger, "mine", sets)
		if err != nil {
			t.Fatal(err)
		}
		return eventsourcetest.PodsSubject{
			Pods: merger, Feed: feed, Source: "mine",
			Set:   func(pods []*v1.Pod) { sets <- pods },
			Ready: func() bool { return merger.SourceReady("mine") },
		}
	})
}

// Example shows TestDoorbell, a test of a source. It has no output, because only go test has a
// *testing.T; go test runs TestDoorbell.
func Example() {
	_ = TestDoorbell
}

// ExampleRunPods shows TestPods, a test of a source of pods, which go test runs.
func ExampleRunPods() {
	_ = TestPods
}
