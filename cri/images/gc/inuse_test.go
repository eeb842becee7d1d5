package gc

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// told is a node whose runtime reports mounts and its configuration.
type told struct {
	*node
	mounts map[string]string // image by container ID
	config string
}

func (n *told) ContainerStatus(_ context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	if err := n.failure("ContainerStatus"); err != nil {
		return nil, err
	}
	if id == "gone" {
		return nil, status.Error(codes.NotFound, "removed meanwhile")
	}
	mounts := []*runtimeapi.Mount{{ContainerPath: "/etc/hosts", HostPath: "/hosts"}}
	if image := n.mounts[id]; image != "" {
		mounts = append(mounts, &runtimeapi.Mount{ContainerPath: "/image", Image: &runtimeapi.ImageSpec{Image: image}})
	}
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{Mounts: mounts}}, nil
}

func (n *told) Status(_ context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	reply := &runtimeapi.StatusResponse{Info: map[string]string{"golang": `"go1.19"`}}
	if verbose {
		reply.Info["config"] = n.config
	}
	return reply, n.failure("Status")
}

func newTold(t *testing.T, images ...*runtimeapi.Image) (*told, *Manager) {
	n := &told{node: newNode(images...), mounts: map[string]string{}}
	m, err := New(Config{
		Images: n, Containers: n, OnRemove: func(i Image, _ Reason) { n.tell(i.ID) },
		Disk: func(context.Context) (Disk, error) { return Disk{n.capacity, n.available}, nil },
	})
	require.NoError(t, err)
	return n, m
}

// C43, V34: a mounted image is in use as long as its container exists, even if its tag has moved.
func TestMountedImages(t *testing.T) {
	n, m := newTold(t, sized("id-old", 1, "r.io/models@sha256:1"), sized("id-new", 1, "r.io/models:v1"))
	n.containers = []*runtimeapi.Container{{Id: "c", ImageId: "x"}, {Id: "plain"}, {Id: "gone"}}
	n.mounts["c"] = "id-old"
	for range 2 {
		_, err := m.RemoveUnused(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, []string{"id-new"}, n.take())
	n.containers = n.containers[1:]
	_, err := m.RemoveUnused(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"id-old"}, n.take())
	require.Len(t, m.mounted, 1)
}

// The sandbox image is in use by future pods if the runtime reports it without pinning it.
func TestSandboxImage(t *testing.T) {
	for name, tc := range map[string]struct {
		config  string
		removed []string
	}{
		"containerd 1.6": {`{"sandboxImage": "r.io/pause:3", "statsCollectPeriod": 10}`, []string{"b"}},
		"containerd 2":   {`{"enableSelinux": false}`, []string{"a", "b"}},
		"another":        {`not JSON`, []string{"a", "b"}},
		"none":           {``, []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			n, m := newTold(t, sized("a", 1, "r.io/pause:3"), sized("b", 1, "r.io/b:1"))
			n.config = tc.config
			_, err := m.RemoveUnused(t.Context())
			require.NoError(t, err)
			require.Equal(t, tc.removed, n.take())
		})
	}
}

// No image is removed while the images in use are unknown, including those from mounts and the
// sandbox image.
func TestUnknownUseKeepsAll(t *testing.T) {
	for _, call := range []string{"ContainerStatus", "Status", "ListImages", "ListContainers", "InUse"} {
		n, m := newTold(t, sized("a", 1))
		m.cfg.InUse = func(context.Context) ([]string, error) { return nil, n.failure("InUse") }
		n.containers = []*runtimeapi.Container{{Id: "c"}}
		n.available, n.fail[call] = 0, errors.New("away")
		require.ErrorIs(t, m.Collect(t.Context()), n.fail[call], call)
		_, err := m.RemoveUnused(t.Context())
		require.ErrorIs(t, err, n.fail[call], call)
		require.Empty(t, n.take(), call)
	}
}
