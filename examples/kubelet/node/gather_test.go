package node

import (
	"context"
	"errors"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cri"
	nodestatus "github.com/podwright/podwright/status/node"
)

func TestGatherer(t *testing.T) {
	root := files(completeMachine())
	reserved, err := ParseReservations(&kubeletv1beta1.KubeletConfiguration{KubeReserved: map[string]string{"cpu": "1"}})
	require.NoError(t, err)
	var health cri.Health
	var images error
	g, err := NewGatherer(GathererConfig{
		Root: root, Reserved: reserved, MaxPods: 20, MaxImages: 50, Port: 10250,
		Storage: func() (int64, error) { return 10 << 30, nil },
		Runtime: func() (string, string) { return "containerd", "2.2.1" },
		Health:  func() cri.Health { return health },
		Images: func(context.Context) ([]*runtimeapi.Image, error) {
			return []*runtimeapi.Image{{RepoTags: []string{"t"}, RepoDigests: []string{"d"}, Size: 7}}, images
		},
		Pressure: func() *nodestatus.Pressure { return &nodestatus.Pressure{Disk: true} },
		Plugins: func() map[v1.ResourceName]nodestatus.Amount {
			return map[v1.ResourceName]nodestatus.Amount{"example.com/gpu": {Capacity: 1}}
		},
		VolumesInUse: func() []v1.UniqueVolumeName { return nil },
		Declared:     func() []string { return Declared(health.Features) },
	})
	require.NoError(t, err)
	f := g.Facts(t.Context())
	require.EqualValues(t, 6, f.Machine.Cores)
	require.EqualValues(t, 10<<30, f.Machine.Storage)
	require.Equal(t, "containerd://2.2.1", f.Versions.Runtime)
	require.Equal(t, "v1.36.3+podwright."+podwright.Version, f.Versions.Agent)
	require.Equal(t, []nodestatus.Image{{Digests: []string{"d"}, Tags: []string{"t"}, Bytes: 7}}, f.Images)
	require.Nil(t, f.Handlers, "no response from the runtime yet")
	require.Nil(t, f.Features)
	require.Nil(t, f.VolumesInUse)
	require.Equal(t, &nodestatus.Pressure{Disk: true}, f.Pressure)
	require.Equal(t, []string{"InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers", "RestartAllContainersOnContainerExits"}, f.Declared)

	f.Now = time.Now()
	status := nodestatus.Compute(nil, f)
	require.Equal(t, "5", status.Allocatable.Cpu().String())
	require.Equal(t, "20", status.Capacity.Pods().String())
	require.True(t, nodestatus.Ready(status))

	health = cri.Health{
		LastGood: time.Now(), Handlers: []cri.Handler{{Name: "runc", UserNamespaces: true}},
		Features: cri.Features{SupplementalGroupsPolicy: true, UserNamespacesHostNetwork: true},
	}
	images = errors.New("no images")
	delete(root, "proc/meminfo")
	f = g.Facts(t.Context())
	require.Equal(t, []nodestatus.Handler{{Name: "runc", UserNamespaces: true}}, f.Handlers)
	require.Equal(t, &nodestatus.Features{SupplementalGroupsPolicy: true}, f.Features)
	require.Contains(t, f.Declared, "UserNamespacesHostNetworkSupport")
	require.Nil(t, f.Images)
	require.Nil(t, f.Machine)
	require.Contains(t, f.NotReady[0], "proc/meminfo")
	f.Now = time.Now()
	blind := nodestatus.Compute(status, f)
	require.False(t, nodestatus.Ready(blind))
	require.Equal(t, status.Allocatable, blind.Allocatable, "allocatable resources stay")
	require.Equal(t, status.Images, blind.Images)
}

func TestGathererWithFewFacts(t *testing.T) {
	_, err := NewGatherer(GathererConfig{})
	require.ErrorContains(t, err, "GathererConfig.Root is required")
	g, err := NewGatherer(GathererConfig{Root: files(completeMachine())})
	require.NoError(t, err)
	f := g.Facts(t.Context())
	f.Now = time.Now()
	status := nodestatus.Compute(nil, f)
	require.True(t, nodestatus.Ready(status), "storage is not counted")
	require.NotContains(t, status.Capacity, v1.ResourceEphemeralStorage)
	require.Equal(t, "110", status.Capacity.Pods().String())
	require.NotNil(t, f.Images, "the list is empty, not unknown")

	g, err = NewGatherer(GathererConfig{Root: fstest.MapFS{}, Storage: func() (int64, error) { return 0, errors.New("no disk") }})
	require.NoError(t, err)
	require.NotEmpty(t, g.Facts(t.Context()).NotReady)
	g.cfg.Root = files(completeMachine())
	require.Equal(t, []string{"machine: no disk"}, g.Facts(t.Context()).NotReady)
}

func TestNotReady(t *testing.T) {
	well := cri.Condition{Readiness: cri.Ready}
	require.Empty(t, NotReady(cri.Health{RuntimeReady: well, NetworkReady: well}))
	require.Equal(t, []string{"container runtime status check may not have completed yet", "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:"},
		NotReady(cri.Health{NetworkReady: cri.Condition{Readiness: cri.NotReady, Reason: "NetworkPluginNotReady"}}))
}
