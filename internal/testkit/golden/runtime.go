package golden

import (
	"context"
	"os"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

// Runtime is an in-memory runtime that stores the requests for records. It has optional
// features: user namespaces, recursive read-only mounts, the policies for supplemental groups,
// and a handler "special".
type Runtime struct {
	*fake.Runtime

	mu       sync.Mutex
	requests map[string]*Requests
	count    int
}

// Requests are the requests for one pod.
type Requests struct {
	Sandboxes  []*runtimeapi.RunPodSandboxRequest
	Containers []*runtimeapi.CreateContainerRequest
	// Hosts are the contents of /etc/hosts, one for each of Containers, "" without the file.
	Hosts []string
}

// NewRuntime returns the runtime of an environment. The caller must close it.
func NewRuntime(e Environment) (*Runtime, error) {
	rt := &Runtime{requests: map[string]*Requests{}}
	cfg := fake.Config{
		AnyImage: true, FixedIPs: e.PodIPs, Programs: Programs, Intercept: rt.intercept,
		RuntimeVersion: "v2.2.1", Handlers: []string{"special"},
	}
	for _, image := range e.Images {
		cfg.Images = append(cfg.Images, fake.Image{Name: image.Name, UID: image.UID, Username: image.Username})
	}
	var err error
	rt.Runtime, err = fake.New(cfg)
	return rt, err
}

// Status adds the optional features.
func (rt *Runtime) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	response, err := rt.Runtime.Status(ctx, verbose)
	if err != nil {
		return nil, err
	}
	for _, handler := range response.RuntimeHandlers {
		handler.Features.UserNamespaces = true
		handler.Features.RecursiveReadOnlyMounts = handler.Name == ""
	}
	response.Features.SupplementalGroupsPolicy = true
	return response, nil
}

// Requests returns the requests for a pod, and the number of requests for all pods.
func (rt *Runtime) Requests(uid string) (Requests, int) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if r := rt.requests[uid]; r != nil {
		return *r, rt.count
	}
	return Requests{}, rt.count
}

func (rt *Runtime) intercept(_ context.Context, _ string, request any) error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	switch r := request.(type) {
	case *runtimeapi.RunPodSandboxRequest:
		of := rt.of(r.GetConfig())
		of.Sandboxes = append(of.Sandboxes, proto.CloneOf(r))
	case *runtimeapi.CreateContainerRequest:
		of := rt.of(r.GetSandboxConfig())
		of.Containers = append(of.Containers, proto.CloneOf(r))
		of.Hosts = append(of.Hosts, hostsFile(r.GetConfig().GetMounts()))
	}
	return nil
}

func (rt *Runtime) of(config *runtimeapi.PodSandboxConfig) *Requests {
	rt.count++
	uid := config.GetMetadata().GetUid()
	if rt.requests[uid] == nil {
		rt.requests[uid] = &Requests{}
	}
	return rt.requests[uid]
}

func hostsFile(mounts []*runtimeapi.Mount) string {
	for _, mount := range mounts {
		if mount.ContainerPath == "/etc/hosts" {
			text, err := os.ReadFile(mount.HostPath)
			if err == nil {
				return string(text)
			}
		}
	}
	return ""
}

// Programs selects the program of a container by its name. "init" and "init-..." exit with 0,
// after writing a file if their args are "put-file", its path and its text. "crash-once" fails
// the first time. All others sleep.
func Programs(_ context.Context, p *fake.Process) (fake.Program, error) {
	name := p.Container.Name
	switch {
	case p.Exec:
		return fake.Exit(0), nil
	case len(p.Args) == 3 && p.Args[0] == "put-file":
		return putFile, nil
	case name == "init" || strings.HasPrefix(name, "init-"):
		return fake.Exit(0), nil
	case name == "crash-once" && p.Container.Attempt == 0:
		return fake.Exit(1), nil
	}
	return fake.SleepUntilStopped, nil
}

func putFile(_ context.Context, p *fake.Process) int {
	path, ok := p.HostPath(p.Args[1])
	if !ok {
		return 1
	}
	if err := os.WriteFile(path, []byte(p.Args[2]), 0o644); err != nil {
		return 1
	}
	return 0
}
