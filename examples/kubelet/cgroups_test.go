package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/examples/kubelet/config"
)

// N44, A36: cgroup v1 is refused unless somebody wants it; the embedded runtime has nothing
// to do with cgroups.
func TestCgroupV1(t *testing.T) {
	cfg := config.Default()
	require.NoError(t, checkCgroups(&cfg, cgroups.V2))
	require.ErrorContains(t, checkCgroups(&cfg, cgroups.V1), "failCgroupV1: false")
	require.NotNil(t, hostCgroups(&cfg))
	cfg.Kubelet.FailCgroupV1 = new(false)
	require.NoError(t, checkCgroups(&cfg, cgroups.V1))
	cfg = config.Default()
	cfg.Kubelet.ContainerRuntimeEndpoint = config.Embedded
	require.NoError(t, checkCgroups(&cfg, cgroups.V1))
	require.Nil(t, hostCgroups(&cfg))
}
