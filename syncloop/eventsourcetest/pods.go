package eventsourcetest

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/bubbletest"
	"github.com/podwright/podwright/syncloop"
)

// PodsSubject is one source of pods under test.
type PodsSubject struct {
	// Pods is the Config.Pods of a Loop. Required.
	Pods syncloop.PodSource
	// Feed is the event source that delivers the pods to Pods. Required.
	Feed syncloop.EventSource
	// Source is the name of the source of pods. Required.
	Source string
	// Set makes pods the newest complete set. The suite changes these objects after the set was
	// read. Set must not block, also while no Run is active. Required.
	Set func(pods []*v1.Pod)
	// Eager is true if there is a set before the first call of Set, as for an empty folder.
	Eager bool
	// Ready reports whether the source has been handled. Optional: without it readiness is not
	// tested.
	Ready func() bool
	// Fail and End are as in Subject, for Feed.
	Fail, End func()
}

// RunPods tests the contract of syncloop.PodSource, and of syncloop.EventSource for the feed, in
// one subtest per rule. newSubject returns a new source of pods for each case, as Config.New does.
func RunPods(t *testing.T, newSubject func(t testing.TB) PodsSubject) {
	for _, c := range podsCases {
		t.Run(c.name, func(t *testing.T) {
			bubbletest.Test(t, func(t testing.TB) { newReader(t, newSubject(t)).play(c.play) })
		})
	}
	t.Run("EventSource", func(t *testing.T) {
		Run(t, Config{New: func(t testing.TB) Subject { return newSubject(t).source(t) }})
	})
}

func (sub PodsSubject) source(t testing.TB) Subject {
	if sub.Pods == nil || sub.Feed == nil || sub.Source == "" || sub.Set == nil {
		t.Fatal("eventsourcetest: PodsSubject.Pods, Feed, Source and Set are required")
	}
	n := 0
	return Subject{Source: sub.Feed, Fail: sub.Fail, End: sub.End, Touch: func() syncloop.Event {
		n++
		sub.Set([]*v1.Pod{pod("touched", types.UID(fmt.Sprint("touched-", n)), "x")})
		return syncloop.Event{Kind: syncloop.PodsChanged, Source: sub.Source}
	}}
}

// pod returns a pod. Pods of one name differ by UID and image.
func pod(name string, uid types.UID, image string) *v1.Pod {
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: uid},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: image}}},
	}
}
