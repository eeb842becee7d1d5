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

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/cri/pods/hooks"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/pleg/observed"
)

// agent has the parts that start, observe and remove pods on a runtime in memory. For a real
// runtime only its first lines differ: cri.DialRuntime and cri.DialImages.
type agent struct {
	manager   *pods.Manager
	observer  *observe.Observer
	collector *garbage.Collector
	stop      func()
}

func newAgent(runtimeConfig fake.Config, change func(*pods.Config)) agent {
	dir, err := os.MkdirTemp("", "pods-example")
	check(err)
	runtime, err := fake.New(runtimeConfig)
	check(err)
	cfg := pods.Config{Runtime: runtime, RuntimeName: "fake", Owner: cri.Owner{Unlabelled: true}, LogRoot: dir}
	cfg.Images, err = images.New(images.Config{Service: runtime})
	check(err)
	cfg.Hooks, err = hooks.New(hooks.Config{Exec: runtime})
	check(err)
	change(&cfg)
	a := agent{stop: func() { _, _ = runtime.Close(), os.RemoveAll(dir) }}
	a.manager, err = pods.New(cfg)
	check(err)
	a.observer, err = observe.New(observe.Config{Runtime: runtime, RuntimeName: "fake", Owner: cri.Owner{Unlabelled: true}})
	check(err)
	a.collector, err = garbage.New(garbage.Config{Runtime: runtime, Pods: a.manager})
	check(err)
	return a
}

// status returns the pod's state in the runtime.
func (a agent) status(pod *v1.Pod) *observed.Pod {
	status, err := a.observer.PodStatus(context.Background(), pod.UID)
	check(err)
	return status
}

func unchanged(*pods.Config) {}

func newPod(containers ...v1.Container) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1"},
		Spec:       v1.PodSpec{DNSPolicy: v1.DNSNone, Containers: containers},
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Example starts, stops and removes a pod on a runtime in memory.
func Example() {
	agent := newAgent(fake.Config{}, unchanged)
	defer agent.stop()
	ctx := context.Background()
	pod := newPod(v1.Container{Name: "hello", Image: "example.org/hello:1"})

	check(agent.manager.SyncPod(ctx, pods.SyncRequest{Pod: pod, Status: &observed.Pod{UID: pod.UID}}).Err())
	fmt.Println("running:", agent.status(pod).Running()[0].Name)

	check(agent.manager.KillPod(ctx, pods.KillRequest{Pod: pod, Status: agent.status(pod)}).Err())
	fmt.Println("stopped:", agent.status(pod).Stopped())

	check(agent.collector.RemovePod(ctx, pod.UID, agent.status(pod)))
	left, err := agent.observer.ListPods(ctx)
	check(err)
	fmt.Println("nothing left:", len(left) == 0)
	// Output:
	// running: hello
	// stopped: true
	// nothing left: true
}

// ExampleConfig uses the callbacks around the start of a container to give it exclusive CPUs.
func ExampleConfig() {
	agent := newAgent(fake.Config{AnyImage: true}, func(cfg *pods.Config) {
		cfg.MaxConcurrentStarts = 1
		cfg.PreCreate = func(_ context.Context, _ *v1.Pod, c *v1.Container, config *runtimeapi.ContainerConfig) error {
			config.Linux.Resources.CpusetCpus = "2-3"
			fmt.Println("created on 2-3:", c.Name)
			return nil
		}
		cfg.PreStart = func(_ context.Context, _ *v1.Pod, c *v1.Container, id string) error {
			fmt.Println("starts:", c.Name)
			return nil
		}
	})
	defer agent.stop()
	pod := newPod(v1.Container{Name: "app", Image: "app"})
	check(agent.manager.SyncPod(context.Background(), pods.SyncRequest{Pod: pod, Status: &observed.Pod{UID: pod.UID}}).Err())
	// Output:
	// created on 2-3: app
	// starts: app
}

// ExampleResult_Explanation shows how a sync explains that an init container runs first.
func ExampleResult_Explanation() {
	agent := newAgent(fake.Config{AnyImage: true}, unchanged)
	defer agent.stop()
	pod := newPod(v1.Container{Name: "app", Image: "busybox:1"})
	pod.Spec.InitContainers = []v1.Container{{Name: "setup", Image: "busybox:1"}}
	for range 2 {
		result := agent.manager.SyncPod(context.Background(), pods.SyncRequest{
			Pod: pod, Status: agent.status(pod), OnStep: func(step string) { fmt.Println("-", step) },
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

// ExampleUnsupported prints the unsupported fields of a spec.
func ExampleUnsupported() {
	pod := &v1.Pod{Spec: v1.PodSpec{OS: &v1.PodOS{Name: v1.Windows}}}
	for _, err := range pods.Unsupported(pod) {
		fmt.Println(err)
	}
	// Output:
	// spec.os: not supported
}

// ExampleManager_KillPod stops a pod with a sidecar: first the preStop handler runs, then the
// containers stop, the sidecar last.
func ExampleManager_KillPod() {
	ctx := context.Background()
	agent := newAgent(fake.Config{AnyImage: true, Intercept: tellStops}, unchanged)
	defer agent.stop()
	always := v1.ContainerRestartPolicyAlways
	pod := newPod(v1.Container{Name: "app", Image: "app:1", Lifecycle: &v1.Lifecycle{
		PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"/drain"}}},
	}})
	pod.Spec.InitContainers = []v1.Container{{Name: "proxy", Image: "proxy:1", RestartPolicy: &always}}
	for len(agent.status(pod).Running()) < 2 {
		check(agent.manager.SyncPod(ctx, pods.SyncRequest{Pod: pod, Status: agent.status(pod)}).Err())
	}

	grace := int64(20)
	result := agent.manager.KillPod(ctx, pods.KillRequest{Pod: pod, Status: agent.status(pod), GraceSeconds: &grace})
	fmt.Println(result.Err())
	// Output:
	// app runs /drain
	// stopping a container within 20 s
	// stopping a container within 20 s
	// stopping the sandbox
	// <nil>
}

// tellStops prints the calls that stop a pod.
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
