package fake

import (
	"fmt"
	"slices"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Lacks is the answer to a call that Config takes away, by its name, and nil for
// others. It is there for servers, since the streaming lists are calls of the
// server alone; what wraps a Runtime passes it on.
func (rt *Runtime) Lacks(call string) error {
	if slices.Contains(rt.cfg.Unimplemented, call) {
		return unimplemented(call)
	}
	return nil
}

// checkCalls tells which of the names are no calls of the CRI.
func checkCalls(names []string) error {
	var known []string
	for _, service := range []grpc.ServiceDesc{runtimeapi.RuntimeService_ServiceDesc, runtimeapi.ImageService_ServiceDesc} {
		for _, method := range service.Methods {
			known = append(known, method.MethodName)
		}
		for _, stream := range service.Streams {
			known = append(known, stream.StreamName)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("fake: Unimplemented: there is no call %q", name)
		}
	}
	return nil
}
