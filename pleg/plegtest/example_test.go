package plegtest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/pleg/plegtest"
)

// An in-memory runtime with one pod, whose container exits.
func ExampleRuntime() {
	var rt plegtest.Runtime
	rt.Set(plegtest.Pod("web", plegtest.Running("main")))
	rt.Update("web", func(s *observed.Pod) { s.Containers[0].State = observed.StateExited })

	s, err := rt.PodStatus(context.Background(), "web")
	fmt.Println(s.Newest("main").State, err)

	rt.FailPod("web", plegtest.Fault{Err: fmt.Errorf("no response")})
	_, err = rt.PodStatus(context.Background(), "web")
	fmt.Println(err)
	// Output:
	// exited <nil>
	// no response
}

func TestMyRuntime(t *testing.T) {
	plegtest.Run(t, plegtest.Config{
		Around: synctest.Test, // it lives in memory
		Start: func(*testing.T) plegtest.Subject {
			rt := &plegtest.Runtime{}
			return plegtest.Subject{Runtime: rt.WithEvents(), Pods: rt.Pods()}
		},
	})
}

// ExampleRun shows TestMyRuntime, an ordinary test of a runtime. It has no output of its own, because
// only go test has a *testing.T; go test runs TestMyRuntime.
func ExampleRun() {
	_ = TestMyRuntime
}

// Bench measures the time until changes are seen if an inspection takes 3 ms.
func ExampleBench() {
	rt := &plegtest.Runtime{}
	rt.FailInspections(plegtest.Fault{Latency: 3 * time.Millisecond})
	r, err := plegtest.Bench{
		PLEG:   pleg.Config{Runtime: rt, RelistPeriod: 50 * time.Millisecond},
		Pods:   rt.Pods(),
		Rounds: 10,
	}.Run(context.Background())
	fmt.Println(err)
	fmt.Println("an exit takes a period and an inspection:", r.SeenExit.N == 5 && r.SeenExit.Median > 3*time.Millisecond)
	fmt.Println("Observe waits only for the inspection:", r.Fresh.N == 15 && r.Fresh.Median < r.SeenExit.Median)
	// Output:
	// <nil>
	// an exit takes a period and an inspection: true
	// Observe waits only for the inspection: true
}
