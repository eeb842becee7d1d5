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
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/cri/pods/observe"
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
	observer, err := observe.New(observe.Config{Runtime: runtime, RuntimeName: "fake"})
	if err != nil {
		return err
	}
	collector, err := garbage.New(garbage.Config{Runtime: runtime, Pods: manager})
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
	status, err := observer.PodStatus(ctx, pod.UID)
	if err != nil {
		return err
	}
	fmt.Println("running:", status.Running()[0].Name)

	result = manager.KillPod(ctx, pods.KillRequest{Pod: pod, Status: status})
	if err := result.Err(); err != nil {
		return err
	}
	if status, err = observer.PodStatus(ctx, pod.UID); err != nil {
		return err
	}
	fmt.Println("stopped:", status.Stopped())

	if err := collector.RemovePod(ctx, pod.UID, status); err != nil {
		return err
	}
	left, err := observer.ListPods(ctx)
	fmt.Println("nothing left:", len(left) == 0)
	return err
}

// An init container runs before the others, which a sync explains.
func ExampleResult_Explanation() {
	dir, err := os.MkdirTemp("", "pods-example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	runtime, err := fake.New(fake.Config{AnyImage: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer runtime.Close()
	pulls, err := images.New(images.Config{Service: runtime})
	if err != nil {
		fmt.Println(err)
		return
	}
	manager, err := pods.New(pods.Config{Runtime: runtime, Images: pulls, RuntimeName: "fake", LogRoot: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	observer, err := observe.New(observe.Config{Runtime: runtime, RuntimeName: "fake"})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1"},
		Spec: v1.PodSpec{
			DNSPolicy:      v1.DNSNone,
			InitContainers: []v1.Container{{Name: "setup", Image: "busybox:1"}},
			Containers:     []v1.Container{{Name: "app", Image: "busybox:1"}},
		},
	}
	for range 2 {
		status, err := observer.PodStatus(context.Background(), pod.UID)
		if err != nil {
			fmt.Println(err)
			return
		}
		result := manager.SyncPod(context.Background(), pods.SyncRequest{
			Pod: pod, Status: status, SetStep: func(step string) { fmt.Println("-", step) },
		})
		fmt.Println(result.Err(), result.Explanation())
	}
	// Output:
	// - creating the sandbox
	// - ensuring the image of init container setup
	// - starting init container setup
	// <nil> init container setup runs first
	// <nil> init container setup is running
}

// A spec that asks for more than is built is refused by name.
func ExampleUnsupported() {
	pod := &v1.Pod{Spec: v1.PodSpec{OS: &v1.PodOS{Name: v1.Windows}}}
	for _, err := range pods.Unsupported(pod) {
		fmt.Println(err)
	}
	// Output:
	// spec.os: not supported
}
