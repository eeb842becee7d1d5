package gc

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/images/imageref"
)

// Mounts is implemented by a Containers that reports mounts. An image of an image volume
// (KEP-4639) is in use by the containers that have it mounted, even if its tag has moved. A
// cri.RuntimeService implements Mounts.
type Mounts interface {
	ContainerStatus(ctx context.Context, containerID string, verbose bool) (*runtimeapi.ContainerStatusResponse, error)
}

// Configured is implemented by a Containers that reports the runtime's configuration, which
// contains the sandbox image. That image is in use as long as there may be pods. With Configured,
// runtimes that do not pin it (containerd before 1.7) need no entry in Keep. A cri.RuntimeService
// implements Configured.
type Configured interface {
	Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error)
}

// inUse returns all names of images that containers or the configuration refer to.
func (m *Manager) inUse(ctx context.Context) (map[string]bool, error) {
	containers, err := m.cfg.Containers.ListContainers(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("gc: listing containers: %w", err)
	}
	mounted, err := m.imagesMounted(ctx, containers)
	if err != nil {
		return nil, err
	}
	sandbox, err := m.sandboxImage(ctx)
	if err != nil {
		return nil, err
	}
	further, err := m.cfg.InUse(ctx)
	if err != nil {
		return nil, fmt.Errorf("gc: Config.InUse: %w", err)
	}
	used := map[string]bool{}
	for _, c := range containers {
		for _, ref := range []string{c.GetImageId(), c.GetImageRef(), c.GetImage().GetImage()} {
			used[whole(ref)] = true
		}
	}
	for _, ref := range slices.Concat(mounted, sandbox, further, m.cfg.Keep) {
		used[whole(ref)] = true
	}
	return used, nil
}

// imagesMounted returns the images that containers have mounted. It requests the status of each
// container once, because mounts never change.
func (m *Manager) imagesMounted(ctx context.Context, containers []*runtimeapi.Container) ([]string, error) {
	runtime, ok := m.cfg.Containers.(Mounts)
	if !ok {
		return nil, nil
	}
	mounted := make(map[string][]string, len(containers))
	var out []string
	for _, c := range containers {
		images, known := m.mounted[c.GetId()]
		if !known {
			reply, err := runtime.ContainerStatus(ctx, c.GetId(), false)
			if status.Code(err) == codes.NotFound {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("gc: mounts of container %s: %w", c.GetId(), err)
			}
			for _, mount := range reply.GetStatus().GetMounts() {
				if image := mount.GetImage().GetImage(); image != "" {
					images = append(images, image)
				}
			}
		}
		mounted[c.GetId()] = images
		out = append(out, images...)
	}
	m.mounted = mounted
	return out, nil
}

// sandboxImage returns the image of sandboxes, or none if the runtime does not report it.
func (m *Manager) sandboxImage(ctx context.Context) ([]string, error) {
	runtime, ok := m.cfg.Containers.(Configured)
	if !ok {
		return nil, nil
	}
	reply, err := runtime.Status(ctx, true)
	if err != nil {
		return nil, fmt.Errorf("gc: the runtime's configuration: %w", err)
	}
	var config struct {
		SandboxImage string `json:"sandboxImage"`
	}
	// Only containerd reports it, and only in versions that do not pin the image.
	if json.Unmarshal([]byte(reply.GetInfo()["config"]), &config) != nil || config.SandboxImage == "" {
		return nil, nil
	}
	return []string{config.SandboxImage}, nil
}

// whole returns the same text for each spelling of a reference: with or without the default
// registry and tag.
func whole(ref string) string {
	if name, err := imageref.Parse(ref); err == nil {
		return name.Full()
	}
	return ref
}

func anyOf(used map[string]bool, image *runtimeapi.Image) bool {
	byName := func(name string) bool { return used[whole(name)] }
	return byName(image.GetId()) || slices.ContainsFunc(image.GetRepoTags(), byName) || slices.ContainsFunc(image.GetRepoDigests(), byName)
}
