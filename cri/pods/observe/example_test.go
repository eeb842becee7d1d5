package observe_test

import (
	"context"
	"fmt"
	"log"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/cri/pods/observe"
)

// Example observes a pod. The labels of a sandbox identify its pod, regardless of the agent that
// made it.
func Example() {
	ctx := context.Background()
	runtime, err := fake.New(fake.Config{})
	check(err)
	defer runtime.Close()
	_, err = runtime.RunPodSandbox(ctx, &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "shop", Uid: "1"},
		Labels:   map[string]string{labels.PodName: "web", labels.PodNamespace: "shop", labels.PodUID: "1"},
	}, "")
	check(err)
	observer, err := observe.New(observe.Config{Runtime: runtime, RuntimeName: "fake", Owner: cri.Owner{Unlabelled: true}})
	check(err)
	pods, err := observer.ListPods(ctx)
	check(err)
	for _, pod := range pods {
		status, err := observer.PodStatus(ctx, pod.UID)
		check(err)
		fmt.Println(status.Namespace, status.Name, status.Sandboxes[0].State)
	}
	// Output:
	// shop web ready
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
