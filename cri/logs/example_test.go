package logs_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/logs"
)

func ExampleTail() {
	dir, err := os.MkdirTemp("", "logs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "0.log")
	log := "2026-01-02T15:04:05.1Z stdout F starting\n" +
		"2026-01-02T15:04:05.2Z stderr P cannot open \n" +
		"2026-01-02T15:04:05.3Z stderr F the database\n"
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	text, err := logs.Tail(path, 2, 2048)
	fmt.Printf("%q %v\n", text, err)
	// Output: "cannot open the database\n" <nil>
}

func ExampleParseLine() {
	line, err := logs.ParseLine([]byte("2026-01-02T15:04:05.1Z stderr F no space left\n"))
	fmt.Printf("%s %q %v\n", line.Stream, line.Content, err)
	// Output: stderr "no space left" <nil>
}

// Following a container until it has stopped.
func ExampleReader_Read() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "logs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	runtime, id := startHello(ctx, dir)
	defer runtime.Close()

	reader, err := logs.NewReader(logs.ReaderConfig{States: logs.RuntimeStates(runtime)})
	if err != nil {
		log.Fatal(err)
	}
	status, err := runtime.ContainerStatus(ctx, id, false)
	if err != nil {
		log.Fatal(err)
	}
	container := logs.Log{Path: status.Status.LogPath, ContainerID: id}
	err = reader.Read(ctx, container, logs.Options{Follow: true}, os.Stdout, nil)
	fmt.Println(err)
	// Output:
	// hello
	// and goodbye
	// <nil>
}

// Rotating the logs of all containers of a runtime.
func ExampleRotator() {
	ctx, cancel := context.WithCancel(context.Background())
	dir, err := os.MkdirTemp("", "logs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	runtime, _ := startHello(ctx, dir)
	defer runtime.Close()

	rotator, err := logs.NewRotator(logs.RotatorConfig{
		Runtime: runtime,
		MaxSize: 1, // bytes
		OnRotate: func(r logs.Rotation) {
			fmt.Println(filepath.Base(r.Path), "rotated:", r.Rotated != "", r.Err)
			cancel()
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(rotator.Run(ctx))
	// Output:
	// hello.log rotated: true <nil>
	// <nil>
}

func ExampleInstances_Choose() {
	crashed := logs.Instances{Container: "app", State: logs.Waiting, Reason: "CrashLoopBackOff", LastID: "cd34"}
	fmt.Println(crashed.Choose(false))
	created := logs.Instances{Container: "app", State: logs.Waiting, Reason: "ContainerCreating"}
	fmt.Println(created.Choose(false))
	// Output:
	// cd34 <nil>
	//  no logs: container "app" is waiting to start: ContainerCreating
}

// startHello starts a container that writes two lines.
func startHello(ctx context.Context, dir string) (*fake.Runtime, string) {
	runtime := must(fake.New(fake.Config{AnyImage: true, Programs: fake.Always(hello)}))
	pod := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "1"},
		LogDirectory: dir,
	}
	sandbox := must(runtime.RunPodSandbox(ctx, pod, ""))
	id := must(runtime.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "hello"},
		Image:    &runtimeapi.ImageSpec{Image: "busybox"},
		LogPath:  "hello.log",
	}, pod))
	_ = must(0, runtime.StartContainer(ctx, id))
	for range time.Tick(time.Millisecond) {
		if info, err := os.Stat(filepath.Join(dir, "hello.log")); err == nil && info.Size() > 0 {
			break
		}
	}
	return runtime, id
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func hello(ctx context.Context, p *fake.Process) int {
	fmt.Fprintln(p.Stdout, "hello")
	select {
	case <-ctx.Done():
	case <-time.After(200 * time.Millisecond):
	}
	fmt.Fprintln(p.Stdout, "and goodbye")
	return 0
}
