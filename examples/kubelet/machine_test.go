package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/examples/kubelet/tuning"
)

// N44, A36: cgroup v1 is an error unless it is allowed; the embedded runtime does not use cgroups.
// Defaults that depend on the version are set.
func TestCgroupV1(t *testing.T) {
	v1, v2 := machine{cgroups: cgroups.V1, proc: t.TempDir()}, machine{cgroups: cgroups.V2, proc: t.TempDir()}
	cfg := config.Default()
	require.NoError(t, v2.check(&cfg))
	require.False(t, *cfg.Kubelet.SingleProcessOOMKill)
	require.NotNil(t, hostCgroups(&cfg))
	err := v1.check(&cfg)
	require.ErrorContains(t, err, "failCgroupV1: false")
	require.ErrorContains(t, err, "singleProcessOOMKill: false needs cgroup v2", "both at once")
	cfg.Kubelet.FailCgroupV1, cfg.Kubelet.SingleProcessOOMKill = new(false), nil
	require.NoError(t, v1.check(&cfg))
	require.True(t, *cfg.Kubelet.SingleProcessOOMKill)
	cfg.Kubelet.CgroupsPerQOS, cfg.Kubelet.MemorySwap.SwapBehavior = new(false), config.LimitedSwap
	require.NoError(t, v2.check(&cfg))
	require.ErrorContains(t, v1.check(&cfg), "LimitedSwap needs cgroup v2", "with cgroups of pods, and without")
	cfg = config.Default()
	cfg.Kubelet.ContainerRuntimeEndpoint = config.Embedded
	require.NoError(t, v1.check(&cfg))
	require.Nil(t, hostCgroups(&cfg))
}

// failSwapOn names the swap areas of the host.
func TestSwap(t *testing.T) {
	m := machine{cgroups: cgroups.V2, proc: t.TempDir()}
	file := filepath.Join(m.proc, "swaps")
	cfg := config.Default()
	require.NoError(t, m.check(&cfg), "a kernel without swap")
	require.NoError(t, os.WriteFile(file, []byte("Filename\t\t\tType\n"), 0o600))
	require.NoError(t, m.check(&cfg))
	require.NoError(t, os.WriteFile(file, []byte("Filename\t\t\tType\n/dev/sda2 partition 1 0 -2\n/swap file 1 0 -3\n"), 0o600))
	require.ErrorContains(t, m.check(&cfg), "failSwapOn: this host swaps to /dev/sda2, /swap;")
	cfg.Kubelet.FailSwapOn = new(false)
	require.NoError(t, m.check(&cfg))
	cfg = config.Default()
	cfg.Kubelet.ContainerRuntimeEndpoint = config.Embedded
	require.NoError(t, m.check(&cfg))
	cfg = config.Default()
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Mkdir(file, 0o700))
	require.ErrorContains(t, m.check(&cfg), "failSwapOn: read")
}

// Kernel parameters are changed, or only checked, or left alone without the rights to change them.
func TestTune(t *testing.T) {
	m := machine{proc: t.TempDir()}
	file := func(name string) string {
		return filepath.Join(m.proc, "sys", strings.ReplaceAll(name, ".", "/"))
	}
	for _, s := range tuning.Settings() {
		require.NoError(t, os.MkdirAll(filepath.Dir(file(s.Name)), 0o700))
		require.NoError(t, os.WriteFile(file(s.Name), []byte(s.Value), 0o600))
	}
	require.NoError(t, os.WriteFile(file("kernel.panic"), []byte("0"), 0o600))
	var buf bytes.Buffer
	log, cfg := slog.New(slog.NewTextHandler(&buf, nil)), config.Default()
	cfg.Kubelet.ProtectKernelDefaults = true
	require.ErrorIs(t, m.tune(&cfg, log)(), tuning.ErrProtected)
	cfg.Kubelet.ProtectKernelDefaults = false
	m.user = 7
	require.Nil(t, m.tune(&cfg, log))
	require.Equal(t, 1, strings.Count(buf.String(), "kernel parameters not changed"))
	m.user = 0
	require.NoError(t, m.tune(&cfg, log)())
	require.Contains(t, buf.String(), "name=kernel.panic from=0 to=10")
	got, err := os.ReadFile(file("kernel.panic"))
	require.NoError(t, err)
	require.Equal(t, "10", string(got))
	cfg.Kubelet.ContainerRuntimeEndpoint = config.Embedded
	require.Nil(t, m.tune(&cfg, log))
}

// In a user namespace, parameters that cannot be changed end the start, unless the feature gate
// KubeletInUserNamespace is on.
func TestTuneInUserNamespace(t *testing.T) {
	m := machine{proc: t.TempDir(), userNamespace: true} // without the parameters' files
	var buf bytes.Buffer
	log, cfg := slog.New(slog.NewTextHandler(&buf, nil)), config.Default()
	require.Error(t, m.tune(&cfg, log)())
	cfg.Kubelet.FeatureGates = map[string]bool{config.InUserNamespace: true}
	require.NoError(t, m.tune(&cfg, log)())
	require.Contains(t, buf.String(), "the kubelet runs in a user namespace")
	m.userNamespace = false
	require.Error(t, m.tune(&cfg, log)())
}
