package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri/images/gc"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/examples/kubelet/config"
)

func TestDNS(t *testing.T) {
	k := config.Default().Kubelet
	require.Equal(t, pods.DNS{HostResolver: "/etc/resolv.conf"}, dns(&k))
	*k.ResolverConfig, k.ClusterDNS, k.ClusterDomain = "", []string{"10.0.0.10"}, "cluster.local"
	require.Equal(t, pods.DNS{ClusterServers: []string{"10.0.0.10"}, ClusterDomain: "cluster.local", NoHostResolver: true}, dns(&k))
}

func TestPullLimits(t *testing.T) {
	require.Equal(t, -1, unlimited(0))
	require.Equal(t, 3, unlimited(3))
	yes, no := new(true), new(false)
	for _, tc := range []struct {
		serialize *bool
		limit     *int32
		want      int
	}{
		{nil, nil, 1}, {nil, new(int32(0)), 1}, {nil, new(int32(1)), 1}, {nil, new(int32(4)), 4},
		{yes, nil, 1}, {yes, new(int32(1)), 1},
		{no, nil, -1}, {no, new(int32(0)), -1}, {no, new(int32(1)), 1}, {no, new(int32(4)), 4},
	} {
		k := config.Default().Kubelet
		k.SerializeImagePulls, k.MaxParallelImagePulls = tc.serialize, tc.limit
		config.SetDefaults(&k)
		require.Equal(t, tc.want, parallelPulls(&k), "%+v", tc)
	}
}

func TestImageGC(t *testing.T) {
	k := config.Default().Kubelet
	require.Equal(t, gc.Policy{HighPercent: 85, LowPercent: 80, MinAge: 2 * time.Minute}, imageGC(&k))
	k.ContainerRuntimeEndpoint = config.Embedded
	require.Equal(t, gc.Policy{HighPercent: 100}, imageGC(&k))
}

func TestDeadContainers(t *testing.T) {
	f := config.Default().Flags
	require.Equal(t, garbage.Policy{MaxPerContainer: 1, MaxTotal: -1}, deadContainers(&f))
	f.MaxDeadContainers = 0
	require.True(t, deadContainers(&f).KeepNone)
	f.MaxDeadContainers, f.MaxDeadPerContainer, f.MinContainerTTL = 7, 0, time.Minute
	require.Equal(t, garbage.Policy{MinAge: time.Minute, KeepNone: true, MaxTotal: 7}, deadContainers(&f))
}

func TestLogSize(t *testing.T) {
	k := config.Default().Kubelet
	for text, want := range map[string]int64{"10Mi": 10 << 20, "1500k": 1_500_000, "-1": -1} {
		k.ContainerLogMaxSize = text
		size, err := logSize(&k)
		require.NoError(t, err)
		require.Equal(t, want, size)
	}
	k.ContainerLogMaxSize = "large"
	_, err := logSize(&k)
	require.ErrorContains(t, err, "containerLogMaxSize")
}
