package pods_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods"
)

// A pod with a sidecar is stopped: first its preStop handler runs, then the
// containers end one after the other, the sidecar last.
func ExampleManager_KillPod() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "pods")
	check(err)
	defer os.RemoveAll(dir)
	runtime, err := fake.New(fake.Config{AnyImage: true, Intercept: tellStops})
	check(err)
	defer runtime.Close()

	manager, observer, _ := parts(dir, runtime)
	always := v1.ContainerRestartPolicyAlways
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "0d1e"}, Spec: v1.PodSpec{
		DNSPolicy:      v1.DNSNone,
		InitContainers: []v1.Container{{Name: "proxy", Image: "proxy:1", RestartPolicy: &always}},
		Containers: []v1.Container{{Name: "app", Image: "app:1", Lifecycle: &v1.Lifecycle{
			PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"/drain"}}},
		}}},
	}}
	status, err := observer.PodStatus(ctx, pod.UID)
	check(err)
	for len(status.Running()) < 2 {
		check(manager.SyncPod(ctx, pods.SyncRequest{Pod: pod, Status: status}).Err())
		status, err = observer.PodStatus(ctx, pod.UID)
		check(err)
	}
	grace := int64(20)
	result := manager.KillPod(ctx, pods.KillRequest{Pod: pod, Status: status, GraceSeconds: &grace})
	fmt.Println(result.Err())
	// Output:
	// app runs /drain
	// stopping a container within 20 s
	// stopping a container within 20 s
	// stopping the sandbox
	// <nil>
}

// tellStops prints what the runtime is asked for when a pod is stopped.
func tellStops(_ context.Context, _ string, request any) error {
	switch r := request.(type) {
	case *runtimeapi.ExecSyncRequest:
		fmt.Println("app runs", strings.Join(r.Cmd, " "))
	case *runtimeapi.StopContainerRequest:
		fmt.Println("stopping a container within", r.Timeout, "s")
	case *runtimeapi.StopPodSandboxRequest:
		fmt.Println("stopping the sandbox")
	}
	return nil
}
