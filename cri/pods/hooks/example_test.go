package hooks_test

import (
	"context"
	"fmt"
	"log"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/hooks"
)

// ExampleRunner_Run runs a preStop handler that executes a command.
func ExampleRunner_Run() {
	ctx := context.Background()
	goodbye := func(_ context.Context, p *fake.Process) int {
		fmt.Fprintf(p.Stdout, "%s closed its connections", p.Container.Name)
		return 0
	}
	runtime, err := fake.New(fake.Config{AnyImage: true, Exec: fake.Always(goodbye)})
	if err != nil {
		log.Fatal(err)
	}
	defer runtime.Close()
	id := runContainer(ctx, runtime)

	runner, err := hooks.New(hooks.Config{Exec: runtime})
	if err != nil {
		log.Fatal(err)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "0d1e"}}
	container := &v1.Container{Name: "app", Lifecycle: &v1.Lifecycle{
		PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"/close"}}},
	}}
	output, err := runner.Run(ctx, pod, container, id, container.Lifecycle.PreStop)
	fmt.Println(output, err)

	_, err = runner.Run(ctx, pod, container, id, &v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{}})
	fmt.Println(err)
	// Output:
	// app closed its connections <nil>
	// tcpSocket handler of container app: unsupported lifecycle handler: the API accepts tcpSocket, but it is not implemented
}

// runContainer runs a container without a kubelet.
func runContainer(ctx context.Context, runtime *fake.Runtime) string {
	sandbox := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "shop", Uid: "0d1e"}}
	sandboxID, err := runtime.RunPodSandbox(ctx, sandbox, "")
	if err != nil {
		log.Fatal(err)
	}
	id, err := runtime.CreateContainer(ctx, sandboxID, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"},
		Image:    &runtimeapi.ImageSpec{Image: "busybox"},
	}, sandbox)
	if err != nil {
		log.Fatal(err)
	}
	if err := runtime.StartContainer(ctx, id); err != nil {
		log.Fatal(err)
	}
	return id
}
