package eventsourcetest

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop"
)

// PodsConfig says what RunPods tests, and how.
type PodsConfig struct {
	// New returns a source of pods of its own for each case, as Config.New does.
	// Required.
	New func(t testing.TB) PodsSubject
	// RealTime, Patience and Settle are those of Config.
	RealTime         bool
	Patience, Settle time.Duration
}

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
	// they have come out at the other end. Set does not block, also while nothing runs. Required.
	Set func(pods []*v1.Pod)
	// Manifests tells that pods travel as manifests: their status, deletion and
	// creation do not, and their names may change on the way. UIDs stay.
	Manifests bool
	// Eager tells that there is a set before Set was called, as in an empty folder.
	Eager bool
	// Ready tells whether the source has been handled. nil leaves that out.
	Ready func() bool
}

// RunPods tests that sources keep the contract of syncloop.PodSource, and of
// syncloop.EventSource with them: one subtest per rule.
func RunPods(t *testing.T, cfg PodsConfig) {
	if cfg.New == nil {
		t.Fatal("eventsourcetest: New is required")
	}
	common, err := Config{
		New: cfg.newSource, RealTime: cfg.RealTime, Patience: cfg.Patience, Settle: cfg.Settle,
	}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range podsCases {
		inBubble(t, c.name, cfg.RealTime, func(t *testing.T) { c.play(newLoop(t, common, cfg.New(t))) })
	}
	t.Run("EventSource", func(t *testing.T) { Run(t, common) })
}

// newSource returns the source of pods, together with what feeds it, as one source
// whose sets make it dirty.
func (cfg PodsConfig) newSource(t testing.TB) Subject {
	sub := cfg.New(t)
	if err := sub.check(); err != nil {
		t.Fatal(err)
	}
	return Subject{
		Source: together(append([]syncloop.EventSource{sub.Pods}, sub.Feeds...)),
		Touch:  toucher(sub),
	}
}

func (sub PodsSubject) check() error {
	switch {
	case sub.Pods == nil:
		return errors.New("eventsourcetest: PodsSubject.Pods is required")
	case sub.Source == "":
		return errors.New("eventsourcetest: PodsSubject.Source is required")
	case sub.Set == nil:
		return errors.New("eventsourcetest: PodsSubject.Set is required")
	}
	return nil
}

// pod returns a pod. Pods of one name differ by UID and image.
func pod(name string, uid types.UID, image string, edits ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: uid},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: image}}},
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func running(p *v1.Pod) { p.Status.Phase = v1.PodRunning }

func deleting(p *v1.Pod) {
	at := metav1.NewTime(time.Unix(1_700_000_000, 0))
	p.DeletionTimestamp = &at
}
