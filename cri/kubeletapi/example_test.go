package kubeletapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/kubeletapi"
	"github.com/podwright/podwright/cri/logs"
)

// one is a node with one pod, default/web, with one container. Agents use podsyncer.Syncer as
// their Pods.
type one struct {
	runtime            cri.ContainerReader
	sandbox, container string
}

func (o one) is(t kubeletapi.Target) error {
	if t.Namespace != "default" || t.Pod != "web" || (t.Container != "app" && t.Container != "") {
		return &kubeletapi.Refusal{Code: http.StatusNotFound, Message: fmt.Sprintf("%s/%s/%s is not here", t.Namespace, t.Pod, t.Container)}
	}
	return nil
}

func (o one) RunningContainer(_ context.Context, t kubeletapi.Target) (kubeletapi.Container, error) {
	return kubeletapi.Container{ID: o.container}, o.is(t)
}

func (o one) RunningSandbox(_ context.Context, t kubeletapi.Target) (string, error) {
	return o.sandbox, o.is(t)
}

func (o one) Log(ctx context.Context, t kubeletapi.Target, _ bool) (logs.Log, error) {
	if err := o.is(t); err != nil {
		return logs.Log{}, err
	}
	answer, err := o.runtime.ContainerStatus(ctx, o.container, false)
	return logs.Log{Path: answer.GetStatus().GetLogPath(), ContainerID: o.container}, err
}

// The request of an API server for kubectl logs. The fake's container writes two lines and exits.
func Example() {
	dir, err := os.MkdirTemp("", "kubeletapi")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	runtime, node := start(ctx, dir)
	defer runtime.Close()

	reader, err := logs.NewReader(logs.ReaderConfig{States: logs.RuntimeStates(runtime)})
	if err != nil {
		panic(err)
	}
	api, err := kubeletapi.New(kubeletapi.Config{
		Allow: func(r *http.Request) error {
			if r.Header.Get("Authorization") != "Bearer of the key" {
				return &kubeletapi.Refusal{Code: http.StatusUnauthorized, Message: "who are you?"}
			}
			return nil
		},
		Pods: node, Runtime: runtime, Logs: reader,
	})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(api)
	defer server.Close()

	for _, path := range []string{"/containerLogs/default/web/app?follow=true", "/containerLogs/default/web/none", "/containerLogs/default/web/app?tailLines=-1"} {
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
		request.Header.Set("Authorization", "Bearer of the key")
		response, err := server.Client().Do(request)
		if err != nil {
			panic(err)
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		fmt.Printf("%d\n%s", response.StatusCode, body)
	}
	// Output:
	// 200
	// hello
	// and goodbye
	// 404
	// default/web/none is not here
	// 400
	// tailLines: "-1" is not a whole number from 0 to 9223372036854775807
}

func start(ctx context.Context, dir string) (*fake.Runtime, one) {
	runtime, err := fake.New(fake.Config{AnyImage: true, Programs: fake.Always(func(_ context.Context, p *fake.Process) int {
		fmt.Fprintln(p.Stdout, "hello")
		fmt.Fprintln(p.Stdout, "and goodbye")
		return 0
	})})
	if err != nil {
		panic(err)
	}
	pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "1"}, LogDirectory: dir}
	sandbox, _ := runtime.RunPodSandbox(ctx, pod, "")
	container, _ := runtime.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "busybox"}, LogPath: "app.log",
	}, pod)
	if err := runtime.StartContainer(ctx, container); err != nil {
		panic(err)
	}
	return runtime, one{runtime, sandbox, container}
}
