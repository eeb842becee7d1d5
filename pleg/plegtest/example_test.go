package plegtest_test

import (
	"context"
	"fmt"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/plegtest"
)

// A runtime in memory with one pod, whose container ends.
func ExampleRuntime() {
	var rt plegtest.Runtime
	rt.Set(plegtest.Pod("web", plegtest.Running("main")))
	rt.Update("web", func(s *pleg.PodStatus) { s.Containers[0].State = pleg.StateExited })

	s, err := rt.PodStatus(context.Background(), "web")
	fmt.Println(s.Newest("main").State, err)

	rt.FailPod("web", plegtest.Fault{Err: fmt.Errorf("no answer")})
	_, err = rt.PodStatus(context.Background(), "web")
	fmt.Println(err)
	// Output:
	// exited <nil>
	// no answer
}
