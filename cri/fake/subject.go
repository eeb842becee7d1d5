package fake

import (
	"context"

	"google.golang.org/protobuf/reflect/protoreflect"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// subject has the pod and the container of a call. Both are empty for calls such as lists, and for
// unknown IDs.
type subject struct{ namespace, pod, container string }

type subjectKey struct{}

// subjectOf returns the subject of the call, given the context of Config.Intercept.
func subjectOf(ctx context.Context) subject {
	if find, ok := ctx.Value(subjectKey{}).(func() subject); ok {
		return find()
	}
	return subject{}
}

// withSubject adds the subject of a request to the context of Config.Intercept.
func (rt *Runtime) withSubject(ctx context.Context, request any) context.Context {
	return context.WithValue(ctx, subjectKey{}, func() subject { return rt.subject(request) })
}

func (rt *Runtime) subject(request any) subject {
	var s subject
	pod := func(m *runtimeapi.PodSandboxMetadata) { s.namespace, s.pod = m.GetNamespace(), m.GetName() }
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	switch r := request.(type) {
	case *runtimeapi.RunPodSandboxRequest:
		pod(r.GetConfig().GetMetadata())
	case *runtimeapi.PullImageRequest:
		pod(r.GetSandboxConfig().GetMetadata())
	case *runtimeapi.CreateContainerRequest:
		pod(r.GetSandboxConfig().GetMetadata())
		s.container = r.GetConfig().GetMetadata().GetName()
	case interface{ GetContainerId() string }:
		if c := rt.store.containers[r.GetContainerId()]; c != nil {
			s = subject{c.name.namespace, c.name.podName, c.name.name}
		}
	case interface{ GetPodSandboxId() string }:
		if b := rt.store.sandboxes[r.GetPodSandboxId()]; b != nil {
			s = subject{b.name.namespace, b.name.name, ""}
		}
	}
	return s
}

// callInput returns the request type of a CRI call, or nil for other names.
func callInput(call string) protoreflect.MessageDescriptor {
	services := runtimeapi.File_staging_src_k8s_io_cri_api_pkg_apis_runtime_v1_api_proto.Services()
	for i := range services.Len() {
		if method := services.Get(i).Methods().ByName(protoreflect.Name(call)); method != nil {
			return method.Input()
		}
	}
	return nil
}

func namesContainer(call string) bool {
	return call == "CreateContainer" || callInput(call).Fields().ByName("container_id") != nil
}

func namesPod(call string) bool {
	fields := callInput(call).Fields()
	return namesContainer(call) || call == "RunPodSandbox" ||
		fields.ByName("pod_sandbox_id") != nil || fields.ByName("sandbox_config") != nil
}
