package eventsourcetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/syncloop"
)

// PodsSubject is one source of pods under test.
type PodsSubject struct {
	// Pods is the source that a Loop would have as its Config.Pods. Required.
	Pods syncloop.PodSource
	// Feeds are the sources that bring the pods to it, which a Loop would have as
	// its Config.Sources. May be empty.
	Feeds []syncloop.EventSource
	// Source is the name under which the pods come. Required.
	Source string
	// Set makes these pods the newest complete set. The suite changes the pods once
	// they have come out at the other end. Set does not block, also while nothing
	// runs. Required.
	Set func(pods []*v1.Pod)
	// Eager tells that there is a set before Set was called, as in an empty folder.
	Eager bool
	// Ready tells whether the source has been handled. nil leaves that out.
	Ready func() bool
}

// RunPods tests that sources keep the contract of syncloop.PodSource, and of
// syncloop.EventSource with them: one subtest per rule. newSubject returns a source
// of pods of its own for each case, as Config.New does.
func RunPods(t *testing.T, newSubject func(t testing.TB) PodsSubject) {
	for _, c := range podsCases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newReader(t, newSubject(t)).play(c.play) })
		})
	}
	t.Run("EventSource", func(t *testing.T) {
		Run(t, Config{New: func(t testing.TB) Subject { return newSubject(t).source(t) }})
	})
}

// source is the source of pods with what feeds it, as one source whose sets make it
// dirty.
func (sub PodsSubject) source(t testing.TB) Subject {
	if sub.Pods == nil || sub.Source == "" || sub.Set == nil {
		t.Fatal("eventsourcetest: PodsSubject.Pods, Source and Set are required")
	}
	var mu sync.Mutex
	n := 0
	return Subject{Source: sub.together(), Touch: func() syncloop.Event {
		mu.Lock()
		defer mu.Unlock()
		n++
		sub.Set([]*v1.Pod{pod("touched", types.UID(fmt.Sprint("touched-", n)), "x")})
		return syncloop.Event{Kind: syncloop.PodsChanged, Source: sub.Source}
	}}
}

// together is the source and its feeds, run as one.
func (sub PodsSubject) together() syncloop.EventSource {
	return syncloop.EventSourceFunc(func(ctx context.Context, emit func(syncloop.Event)) error {
		parts := []func(context.Context) error{func(ctx context.Context) error { return sub.Pods.Run(ctx, emit) }}
		for _, feed := range sub.Feeds {
			parts = append(parts, func(ctx context.Context) error {
				err := feed.Run(ctx, emit)
				if err == nil {
					<-ctx.Done() // it has nothing more to say, the others may
				}
				return err
			})
		}
		return run.All(ctx, parts...)
	})
}

// pod returns a pod. Pods of one name differ by UID and image.
func pod(name string, uid types.UID, image string) *v1.Pod {
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: uid},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: image}}},
	}
}
