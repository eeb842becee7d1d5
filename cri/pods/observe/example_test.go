package observe_test

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/cri/pods/observe"
)

// A sandbox belongs to a pod by its labels, whoever made it.
func Example() {
	ctx := context.Background()
	runtime, err := fake.New(fake.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer runtime.Close()
	_, err = runtime.RunPodSandbox(ctx, &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "shop", Uid: "1"},
		Labels:   map[string]string{labels.PodName: "web", labels.PodNamespace: "shop", labels.PodUID: "1"},
	}, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	observer, err := observe.New(observe.Config{Runtime: runtime, RuntimeName: "fake"})
	if err != nil {
		fmt.Println(err)
		return
	}
	pods, err := observer.ListPods(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, pod := range pods {
		status, err := observer.PodStatus(ctx, pod.UID)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(status.Namespace, status.Name, status.Sandboxes[0].State)
	}
	// Output:
	// shop web ready
}
