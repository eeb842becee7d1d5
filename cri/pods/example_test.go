package pods_test

import (
	"context"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/pleg"
)

// A pod is brought up, stopped and removed on a runtime in memory. On a real one
// only the first lines differ: cri.DialRuntime and cri.DialImages.
func Example() {
	dir, err := os.MkdirTemp("", "pods-example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	runtime, err := fake.New(fake.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer runtime.Close()
	if err := run(context.Background(), dir, runtime); err != nil {
		fmt.Println(err)
	}
	// Output:
	// running: hello
	// stopped: true
	// nothing left: true
}

func run(ctx context.Context, dir string, runtime *fake.Runtime) error {
	pulls, err := images.New(images.Config{Service: runtime})
	if err != nil {
		return err
	}
	manager, err := pods.New(pods.Config{Runtime: runtime, Images: pulls, RuntimeName: "fake", LogRoot: dir})
	if err != nil {
		return err
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1"},
		Spec: v1.PodSpec{
			DNSPolicy:  v1.DNSNone,
			Containers: []v1.Container{{Name: "hello", Image: "example.org/hello:1"}},
		},
	}

	result := manager.SyncPod(ctx, pods.SyncRequest{Pod: pod, Status: &pleg.PodStatus{UID: pod.UID}})
	if err := result.Err(); err != nil {
		return err
	}
	status, err := manager.PodStatus(ctx, pod.UID)
	if err != nil {
		return err
	}
	fmt.Println("running:", status.Running()[0].Name)

	result = manager.KillPod(ctx, pods.KillRequest{Pod: pod, Status: status})
	if err := result.Err(); err != nil {
		return err
	}
	if status, err = manager.PodStatus(ctx, pod.UID); err != nil {
		return err
	}
	fmt.Println("stopped:", status.Stopped())

	if err := manager.RemovePod(ctx, pod.UID, status); err != nil {
		return err
	}
	left, err := manager.ListPods(ctx)
	fmt.Println("nothing left:", len(left) == 0)
	return err
}

// What to do is a pure function of the pod and what was observed.
func ExampleComputeActions() {
	pod := &v1.Pod{Spec: v1.PodSpec{
		RestartPolicy: v1.RestartPolicyNever,
		Containers:    []v1.Container{{Name: "job", Image: "busybox"}},
	}}
	fmt.Println(pods.ComputeActions(pods.ActionsInput{Pod: pod, Status: &pleg.PodStatus{}}))
	fmt.Println(pods.ComputeActions(pods.ActionsInput{Pod: pod, Status: &pleg.PodStatus{
		Sandboxes:  []pleg.Sandbox{{ID: "s", State: pleg.SandboxReady}},
		Containers: []pleg.ContainerStatus{{Name: "job", SandboxID: "s", State: pleg.StateExited, ExitCode: 1}},
	}}))
	// Output:
	// killPod=true createSandbox=true attempt=0 kill=0 remove=0 start=[0]
	// killPod=true createSandbox=false attempt=0 kill=0 remove=0 start=[]
}

// A spec that asks for more than is built is refused by name.
func ExampleUnsupported() {
	pod := &v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{{Name: "setup"}}}}
	for _, err := range pods.Unsupported(pod) {
		fmt.Println(err)
	}
	// Output:
	// spec.initContainers: not supported
}
