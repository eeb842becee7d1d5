package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

type endpoint struct{ name, address string }

func (e endpoint) path() string { return strings.TrimPrefix(e.address, "unix://") }

// bare makes only the CRI calls for a pod. It includes the requests that cost the runtime time and
// that every kubelet makes: a seccomp profile for the sandbox, and a log file.
type bare struct {
	client *cri.RuntimeClient
	image  string
	prefix string
	logs   string
	parent string // the cgroup parent of sandboxes; if empty, the runtime chooses
	next   int
	mu     sync.Mutex
}

func newBare(ctx context.Context, e endpoint, dir, image string) (*bare, error) {
	client, err := cri.DialRuntime(ctx, cri.ClientConfig{Endpoint: e.address})
	if err != nil {
		return nil, err
	}
	return &bare{client: client, image: image, logs: filepath.Join(dir, "bare"), prefix: fmt.Sprintf("bare-%d", time.Now().UnixNano())}, nil
}

func (b *bare) close() { _ = b.client.Close() }

// start runs a pod of one container and returns its sandbox.
func (b *bare) start(ctx context.Context) (string, error) {
	sandbox, _, err := b.startWith(ctx, &runtimeapi.ContainerConfig{Command: command})
	return sandbox, err
}

// startWith runs a pod of one container with the command and mounts of own. It returns both ids.
func (b *bare) startWith(ctx context.Context, own *runtimeapi.ContainerConfig) (id, container string, err error) {
	b.mu.Lock()
	b.next++
	name := fmt.Sprintf("%s-%d", b.prefix, b.next)
	b.mu.Unlock()
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "bench", Uid: name},
		LogDirectory: filepath.Join(b.logs, name),
		Linux: &runtimeapi.LinuxPodSandboxConfig{CgroupParent: b.parent, SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
			Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
		}},
	}
	if err := os.MkdirAll(sandbox.LogDirectory, 0o755); err != nil {
		return "", "", err
	}
	if id, err = b.client.RunPodSandbox(ctx, sandbox, ""); err != nil {
		return "", "", err
	}
	container, err = b.run(ctx, id, sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main"}, Command: own.Command, Mounts: own.Mounts, LogPath: "main.log",
	})
	return id, container, err
}

// run completes the container's configuration, creates the container and starts it.
func (b *bare) run(ctx context.Context, id string, sandbox *runtimeapi.PodSandboxConfig, own *runtimeapi.ContainerConfig) (string, error) {
	own.Image = &runtimeapi.ImageSpec{Image: b.image}
	own.Linux = &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
	}}
	container, err := b.client.CreateContainer(ctx, id, own, sandbox)
	if err != nil {
		return "", err
	}
	return container, b.client.StartContainer(ctx, container)
}

func (b *bare) stop(ctx context.Context, sandbox string) error {
	if err := b.client.StopPodSandbox(ctx, sandbox); err != nil {
		return err
	}
	return b.client.RemovePodSandbox(ctx, sandbox)
}

// burst starts n pods, four at a time. It returns the start time of each pod, counted from the
// begin of the burst, and the sandboxes.
func (b *bare) burst(ctx context.Context, n int) ([]time.Duration, []string, error) {
	up, sandboxes := make([]time.Duration, n), make([]string, n)
	begin := time.Now()
	err := each(n, 4, func(i int) (err error) {
		sandboxes[i], err = b.start(ctx)
		up[i] = time.Since(begin)
		return err
	})
	return up, sandboxes, err
}
