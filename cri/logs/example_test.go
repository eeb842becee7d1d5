package logs_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/logs"
)

func ExampleTail() {
	dir := must(os.MkdirTemp("", "logs"))
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "0.log")
	log := "2026-01-02T15:04:05.1Z stdout F starting\n" +
		"2026-01-02T15:04:05.2Z stderr P cannot open \n" +
		"2026-01-02T15:04:05.3Z stderr F the database\n"
	_ = must(0, os.WriteFile(path, []byte(log), 0o600))
	text, err := logs.Tail(context.Background(), path, 2, 2048)
	fmt.Printf("%q %v\n", text, err)
	// Output: "cannot open the database\n" <nil>
}

func ExampleParseLine() {
	line, err := logs.ParseLine([]byte("2026-01-02T15:04:05.1Z stderr F no space left\n"))
	fmt.Printf("%s %q %v\n", line.Stream, line.Content, err)
	// Output: stderr "no space left" <nil>
}

// Follow a container until it has stopped.
func ExampleReader_Read() {
	ctx := context.Background()
	dir := must(os.MkdirTemp("", "logs"))
	defer os.RemoveAll(dir)
	runtime, id := startHello(ctx, dir, 200*time.Millisecond)
	defer runtime.Close()

	reader := must(logs.NewReader(logs.ReaderConfig{States: logs.RuntimeStates(runtime)}))
	status := must(runtime.ContainerStatus(ctx, id, false))
	container := logs.Log{Path: status.Status.LogPath, ContainerID: id}
	fmt.Println(reader.Read(ctx, container, logs.Options{Follow: true}, os.Stdout, nil))
	// Output:
	// hello
	// and goodbye
	// <nil>
}

// Rotate the logs of all containers of a runtime.
func ExampleRotator() {
	ctx, cancel := context.WithCancel(context.Background())
	dir := must(os.MkdirTemp("", "logs"))
	defer os.RemoveAll(dir)
	runtime, _ := startHello(ctx, dir, time.Hour)
	defer runtime.Close()

	rotator := must(logs.NewRotator(logs.RotatorConfig{
		Runtime: runtime, Owner: cri.Owner{Unlabelled: true},
		MaxSize: 1, // bytes
		OnRotate: func(r logs.Rotation) {
			fmt.Println(filepath.Base(r.Path), "rotated:", r.Rotated != "", r.Err)
			cancel()
		},
	}))
	fmt.Println(rotator.Run(ctx))
	// Output:
	// hello.log rotated: true <nil>
	// <nil>
}

func ExampleInstances_Choose() {
	crashed := logs.Instances{Container: "app", State: logs.StateWaiting, Reason: "CrashLoopBackOff", LastID: "cd34"}
	fmt.Println(crashed.Choose(false))
	created := logs.Instances{Container: "app", State: logs.StateWaiting, Reason: "ContainerCreating"}
	fmt.Println(created.Choose(false))
	// Output:
	// cd34 <nil>
	//  no logs: container "app" is waiting to start: ContainerCreating
}

// startHello starts a container that writes two lines, the second before it exits.
func startHello(ctx context.Context, dir string, runs time.Duration) (*fake.Runtime, string) {
	hello := func(ctx context.Context, p *fake.Process) int {
		fmt.Fprintln(p.Stdout, "hello")
		select {
		case <-ctx.Done():
		case <-time.After(runs):
		}
		fmt.Fprintln(p.Stdout, "and goodbye")
		return 0
	}
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
