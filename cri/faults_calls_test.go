package cri_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

// aCall is a call of a client, as a caller makes it.
type aCall struct {
	name string
	// object is what an error of the call names: "" or a key of node.object.
	object string
	// limit is the call's deadline for a RequestTimeout of 2m; 0: none.
	limit time.Duration
	make  func(ctx context.Context, n *node) error
}

// objectOf is what an error of the call names.
func (c aCall) objectOf(n *node) string {
	switch c.object {
	case "container":
		return n.container
	case "sandbox":
		return n.sandbox
	default:
		return c.object
	}
}

const (
	minute = time.Minute
	image  = "busybox:1.36"
)

func imageSpec() *runtimeapi.ImageSpec { return &runtimeapi.ImageSpec{Image: image} }

// everyCall lists each call of both services; TestEveryCallIsListed proves it.
func everyCall() []aCall {
	return append(append(infoCalls(), podCalls()...), append(readCalls(), imageCalls()...)...)
}

func infoCalls() []aCall {
	return []aCall{
		{"Version", "", 2 * minute, func(ctx context.Context, n *node) error { _, err := n.runtime.Version(ctx); return err }},
		{"Status", "", 2 * minute, func(ctx context.Context, n *node) error { _, err := n.runtime.Status(ctx, true); return err }},
		{"RuntimeConfig", "", 2 * minute, func(ctx context.Context, n *node) error { _, err := n.runtime.RuntimeConfig(ctx); return err }},
		{"UpdateRuntimeConfig", "", 2 * minute, func(ctx context.Context, n *node) error {
			return n.runtime.UpdateRuntimeConfig(ctx, &runtimeapi.RuntimeConfig{})
		}},
		{"GetContainerEvents", "", 0, func(ctx context.Context, n *node) error {
			return n.runtime.GetContainerEvents(ctx, func(*runtimeapi.ContainerEventResponse) {})
		}},
		{"ListMetricDescriptors", "", 2 * minute, func(ctx context.Context, n *node) error {
			_, err := n.runtime.ListMetricDescriptors(ctx)
			return err
		}},
		{"ListPodSandboxMetrics", "", 2 * minute, func(ctx context.Context, n *node) error {
			_, err := n.runtime.ListPodSandboxMetrics(ctx)
			return err
		}},
	}
}

// podCalls change sandboxes and containers, those that may work first.
func podCalls() []aCall {
	return []aCall{
		{"RunPodSandbox", "default/second", 4 * minute, func(ctx context.Context, n *node) error {
			_, err := n.runtime.RunPodSandbox(ctx, podConfig("second"), "")
			return err
		}},
		{"CreateContainer", "sandbox", 2 * minute, func(ctx context.Context, n *node) error {
			_, err := n.runtime.CreateContainer(ctx, n.sandbox, containerConfig("second"), n.pod)
			return err
		}},
		{"StartContainer", "container", 2 * minute, func(ctx context.Context, n *node) error {
			return n.runtime.StartContainer(ctx, n.container)
		}},
		{"UpdateContainerResources", "container", 2 * minute, func(ctx context.Context, n *node) error {
			return n.runtime.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{ContainerId: n.container})
		}},
		{"UpdatePodSandboxResources", "sandbox", 2 * minute, func(ctx context.Context, n *node) error {
			return n.runtime.UpdatePodSandboxResources(ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{PodSandboxId: n.sandbox})
		}},
		{"ReopenContainerLog", "container", 2 * minute, func(ctx context.Context, n *node) error {
			return n.runtime.ReopenContainerLog(ctx, n.container)
		}},
		{"CheckpointContainer", "container", 5 * minute, func(ctx context.Context, n *node) error {
			return n.runtime.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{ContainerId: n.container, Timeout: 300})
		}},
		{"StopContainer", "container", 2*minute + 30*time.Second, func(ctx context.Context, n *node) error {
			return n.runtime.StopContainer(ctx, n.container, 30*time.Second)
		}},
		{"RemoveContainer", "container", 2 * minute, func(ctx context.Context, n *node) error {
			return n.runtime.RemoveContainer(ctx, n.container)
		}},
		{"StopPodSandbox", "sandbox", 2 * minute, func(ctx context.Context, n *node) error {
			return n.runtime.StopPodSandbox(ctx, n.sandbox)
		}},
		{"RemovePodSandbox", "sandbox", 2 * minute, func(ctx context.Context, n *node) error {
			return n.runtime.RemovePodSandbox(ctx, n.sandbox)
		}},
	}
}

func readCalls() []aCall {
	return []aCall{
		{"PodSandboxStatus", "sandbox", 2 * minute, func(ctx context.Context, n *node) error {
			_, err := n.runtime.PodSandboxStatus(ctx, n.sandbox, false)
			return err
		}},
		{"ListPodSandbox", "", 2 * minute, func(ctx context.Context, n *node) error {
			_, err := n.runtime.ListPodSandbox(ctx, nil)
			return err
		}},
		{"ContainerStatus", "container", 2 * minute, func(ctx context.Context, n *node) error {
			_, err := n.runtime.ContainerStatus(ctx, n.container, false)
			return err
		}},
		{"ListContainers", "", 2 * minute, func(ctx context.Context, n *node) error {
			_, err := n.runtime.ListContainers(ctx, nil)
			return err
		}},
		{"ExecSync", "container", 2*minute + 7*time.Second, func(ctx context.Context, n *node) error {
			_, _, err := n.runtime.ExecSync(ctx, n.container, []string{"true"}, 7*time.Second)
			return err
		}},
		{"Exec", "container", 2 * minute, func(ctx context.Context, n *node) error {
			_, err := n.runtime.Exec(ctx, &runtimeapi.ExecRequest{ContainerId: n.container, Cmd: []string{"sh"}, Stdout: true})
			return err
		}},
		{"Attach", "container", 2 * minute, func(ctx context.Context, n *node) error {
			_, err := n.runtime.Attach(ctx, &runtimeapi.AttachRequest{ContainerId: n.container, Stdout: true})
			return err
		}},
		{"PortForward", "sandbox", 2 * minute, func(ctx context.Context, n *node) error {
			_, err := n.runtime.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: n.sandbox, Port: []int32{80}})
			return err
		}},
		{"ContainerStats", "container", 2 * minute, func(ctx context.Context, n *node) error {
			_, err := n.runtime.ContainerStats(ctx, n.container)
			return err
		}},
		{"ListContainerStats", "", 2 * minute, func(ctx context.Context, n *node) error {
			_, err := n.runtime.ListContainerStats(ctx, nil)
			return err
		}},
		{"PodSandboxStats", "sandbox", 2 * minute, func(ctx context.Context, n *node) error {
			_, err := n.runtime.PodSandboxStats(ctx, n.sandbox)
			return err
		}},
		{"ListPodSandboxStats", "", 2 * minute, func(ctx context.Context, n *node) error {
			_, err := n.runtime.ListPodSandboxStats(ctx, nil)
			return err
		}},
	}
}

func imageCalls() []aCall {
	return []aCall{
		{"ListImages", "", 2 * minute, func(ctx context.Context, n *node) error { _, err := n.images.ListImages(ctx, nil); return err }},
		{"ImageStatus", image, 2 * minute, func(ctx context.Context, n *node) error {
			_, err := n.images.ImageStatus(ctx, imageSpec(), false)
			return err
		}},
		{"ImageFsInfo", "", 2 * minute, func(ctx context.Context, n *node) error { _, err := n.images.ImageFsInfo(ctx); return err }},
		{"PullImage", image, 0, func(ctx context.Context, n *node) error {
			_, err := n.images.PullImage(ctx, imageSpec(), nil, nil)
			return err
		}},
		{"RemoveImage", image, 2 * minute, func(ctx context.Context, n *node) error { return n.images.RemoveImage(ctx, imageSpec()) }},
	}
}

func TestEveryCallIsListed(t *testing.T) {
	listed := map[string]int{}
	for _, c := range everyCall() {
		listed[c.name]++
	}
	all := 0
	for _, service := range []reflect.Type{reflect.TypeFor[cri.RuntimeService](), reflect.TypeFor[cri.ImageService]()} {
		for i := range service.NumMethod() {
			require.Equal(t, 1, listed[service.Method(i).Name], "rows of %s", service.Method(i).Name)
			all++
		}
	}
	require.Len(t, listed, all)
}

// callNamed finds a call.
func callNamed(t *testing.T, name string) aCall {
	t.Helper()
	for _, c := range everyCall() {
		if c.name == name {
			return c
		}
	}
	require.Failf(t, "no such call", "%s", name)
	return aCall{}
}
