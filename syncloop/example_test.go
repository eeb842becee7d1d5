package syncloop_test

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

// A minimal agent: pods come from a channel, the syncer prints, and the agent stops after the pod
// was removed.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	started := make(chan struct{})
	workers, err := podworkers.New(podworkers.Config{Syncer: podworkers.SyncerFuncs{
		Sync: func(_ context.Context, w podworkers.Work) (bool, error) {
			fmt.Println("run", w.Pod.Name)
			close(started)
			return false, nil
		},
		Terminating: func(_ context.Context, w podworkers.Work) error {
			fmt.Println("stop", w.Pod.Name)
			return nil
		},
		Terminated: func(_ context.Context, w podworkers.Work) error {
			fmt.Println("clean up", w.Pod.Name)
			stop()
			return nil
		},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	merger, _ := podsource.NewMerger(podsource.MergerConfig{})
	sets := make(chan []*v1.Pod)
	mine, _ := podsource.FromChannel(merger, "mine", sets)
	handler, _ := syncloop.NewHandler(syncloop.HandlerConfig{Workers: workers, Sources: merger})
	loop, _ := syncloop.New(syncloop.Config{
		Handler: handler,
		Pods:    merger,
		Sources: map[string]syncloop.EventSource{"mine": mine},

		HousekeepingPeriod: 10 * time.Second, // few pods
	})

	done := make(chan error, 2)
	go func() { done <- workers.Run(ctx) }()
	go func() { done <- loop.Run(ctx) }()
	sets <- []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1"}}}
	<-started
	sets <- nil
	fmt.Println(<-done, <-done)
	// Output:
	// run web
	// stop web
	// clean up web
	// <nil> <nil>
}

// Admission on a small device: at most three pods, in order of priority, and the web server only
// after its database has started. A ready source does not wait for others.
func ExampleHandlerConfig_admission() {
	newPod := func(name string, priority int32, dependsOn string) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: "default", UID: types.UID(name),
				Annotations: map[string]string{"example.org/after": dependsOn},
			},
			Spec: v1.PodSpec{Priority: &priority},
		}
	}
	atMostThree := syncloop.AdmitterFunc(func(_ *v1.Pod, active []*v1.Pod) error {
		if len(active) >= 3 {
			return syncloop.Reject("OutOfpods", "%d pods are enough for this device", len(active))
		}
		return nil
	})
	started := map[string]bool{}
	afterOthers := syncloop.AdmitterFunc(func(pod *v1.Pod, _ []*v1.Pod) error {
		if name := pod.Annotations["example.org/after"]; name != "" && !started[name] {
			return fmt.Errorf("%s has not started", name) // no Rejection: the pod waits
		}
		return nil
	})
	workers, _ := podworkers.New(podworkers.Config{Syncer: podworkers.SyncerFuncs{}})
	handler, err := syncloop.NewHandler(syncloop.HandlerConfig{
		Workers:   workers,
		PerSource: true,
		Order:     syncloop.ByPriority,
		Admit:     syncloop.AdmitAll(afterOthers, atMostThree),
		OnReject: func(pod *v1.Pod, why syncloop.Rejection) {
			fmt.Printf("%s has failed: %s: %s\n", pod.Name, why.Reason, why.Message)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	show := func(when string) {
		var names []string
		for _, pod := range handler.ActivePods() {
			names = append(names, pod.Name)
		}
		fmt.Println(when, "active:", names)
		for _, u := range handler.Unadmitted() {
			fmt.Printf("  %s: %v\n", u.Pod.Name, u.Err)
		}
	}

	// A Loop makes these calls.
	ctx := context.Background()
	handler.HandlePodAdditions(ctx, []*v1.Pod{
		newPod("logs", 5, ""), newPod("db", 0, ""), newPod("web", 10, "db"),
	})
	show("at first,")
	started["db"] = true
	_ = handler.HandlePodCleanups(ctx)
	handler.HandlePodAdditions(ctx, []*v1.Pod{newPod("games", 100, "")})
	show("later,")
	// Output:
	// at first, active: [db logs]
	//   web: db has not started
	// games has failed: OutOfpods: 3 pods are enough for this device
	// later, active: [db logs web]
	//   games: OutOfpods: 3 pods are enough for this device
}

// The changes after a source has delivered another set of pods.
func ExampleDiff() {
	newPod := func(name, host string) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-of-" + name)},
			Spec:       v1.PodSpec{Hostname: host},
		}
	}
	handled := map[types.UID]*v1.Pod{}
	for _, pod := range []*v1.Pod{newPod("a", "x"), newPod("b", "x")} {
		handled[pod.UID] = pod
	}
	for _, change := range syncloop.Diff(handled, []*v1.Pod{newPod("b", "y"), newPod("c", "x")}) {
		fmt.Println(change.Op, change.Pods[0].Name)
	}
	// Output:
	// REMOVE a
	// ADD c
	// UPDATE b
}
