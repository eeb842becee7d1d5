package pods_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/cri/pods/hooks"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/pleg/observed"
)

// parts are what brings pods up on a runtime, looks at them and removes them. On a real runtime
// only the first lines differ: cri.DialRuntime and cri.DialImages.
func parts(dir string, runtime *fake.Runtime) (*pods.Manager, *observe.Observer, *garbage.Collector) {
	pulls, err := images.New(images.Config{Service: runtime})
	check(err)
	runner, err := hooks.New(hooks.Config{Exec: runtime})
	check(err)
	manager, err := pods.New(pods.Config{Runtime: runtime, Images: pulls, RuntimeName: "fake", LogRoot: dir, Hooks: runner})
	check(err)
	observer, err := observe.New(observe.Config{Runtime: runtime, RuntimeName: "fake"})
	check(err)
	collector, err := garbage.New(garbage.Config{Runtime: runtime, Pods: manager})
	check(err)
	return manager, observer, collector
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A pod is brought up, stopped and removed on a runtime in memory.
func Example() {
	dir, err := os.MkdirTemp("", "pods-example")
	check(err)
	defer os.RemoveAll(dir)
	runtime, err := fake.New(fake.Config{})
	check(err)
	defer runtime.Close()
	manager, observer, collector := parts(dir, runtime)
	ctx := context.Background()
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1"},
		Spec: v1.PodSpec{
			DNSPolicy:  v1.DNSNone,
			Containers: []v1.Container{{Name: "hello", Image: "example.org/hello:1"}},
		},
	}

	check(manager.SyncPod(ctx, pods.SyncRequest{Pod: pod, Status: &observed.Pod{UID: pod.UID}}).Err())
	status, err := observer.PodStatus(ctx, pod.UID)
	check(err)
	fmt.Println("running:", status.Running()[0].Name)

	check(manager.KillPod(ctx, pods.KillRequest{Pod: pod, Status: status}).Err())
	status, err = observer.PodStatus(ctx, pod.UID)
	check(err)
	fmt.Println("stopped:", status.Stopped())

	check(collector.RemovePod(ctx, pod.UID, status))
	left, err := observer.ListPods(ctx)
	check(err)
	fmt.Println("nothing left:", len(left) == 0)
	// Output:
	// running: hello
	// stopped: true
	// nothing left: true
}

// Callbacks around the start of a container give it CPUs of its own.
func ExampleConfig() {
	dir, err := os.MkdirTemp("", "pods-example")
	check(err)
	defer os.RemoveAll(dir)
	runtime, err := fake.New(fake.Config{AnyImage: true})
	check(err)
	defer runtime.Close()
	pulls, err := images.New(images.Config{Service: runtime})
	check(err)
	manager, err := pods.New(pods.Config{
		Runtime: runtime, Images: pulls, RuntimeName: "fake", LogRoot: dir, MaxConcurrentStarts: 1,
		PreCreate: func(_ context.Context, _ *v1.Pod, c *v1.Container, config *runtimeapi.ContainerConfig) error {
			config.Linux.Resources.CpusetCpus = "2-3"
			fmt.Println("created on 2-3:", c.Name)
			return nil
		},
		PreStart: func(_ context.Context, _ *v1.Pod, c *v1.Container, id string) error {
			fmt.Println("starts:", c.Name)
			return nil
		},
	})
	check(err)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1"},
		Spec:       v1.PodSpec{DNSPolicy: v1.DNSNone, Containers: []v1.Container{{Name: "app", Image: "app"}}},
	}
	check(manager.SyncPod(context.Background(), pods.SyncRequest{Pod: pod, Status: &observed.Pod{UID: pod.UID}}).Err())
	// Output:
	// created on 2-3: app
	// starts: app
}

// An init container runs before the others, which a sync explains.
func ExampleResult_Explanation() {
	dir, err := os.MkdirTemp("", "pods-example")
	check(err)
	defer os.RemoveAll(dir)
	runtime, err := fake.New(fake.Config{AnyImage: true})
	check(err)
	defer runtime.Close()
	manager, observer, _ := parts(dir, runtime)
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
		check(err)
		result := manager.SyncPod(context.Background(), pods.SyncRequest{
			Pod: pod, Status: status, OnStep: func(step string) { fmt.Println("-", step) },
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
