package config

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is reserved and enforced is taken from the file, and from its twins; all that is
// wrong is named at once.
func TestResources(t *testing.T) {
	read := func(text string, args ...string) (*Config, error) {
		file := filepath.Join(t.TempDir(), "kubelet.yaml")
		require.NoError(t, os.WriteFile(file, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+text), 0o600))
		return FromArgs(append([]string{"--hostname-override=n", "--root-dir=/r", "--config=" + file}, args...), io.Discard)
	}
	c, err := read("systemReserved: {memory: 1Gi}\nenforceNodeAllocatable: [pods, system-reserved]\nsystemReservedCgroup: /system\n",
		"--kube-reserved=cpu=100m,pid=50", "--protect-kernel-defaults", "--fail-swap-on=false")
	require.NoError(t, err)
	k := &c.Kubelet
	require.Equal(t, map[string]string{"cpu": "100m", "pid": "50"}, k.KubeReserved)
	require.True(t, k.ProtectKernelDefaults)
	require.False(t, *k.FailSwapOn)
	require.Equal(t, "/system", AllocatableKeys(k).SystemCgroup)

	// Without cgroups nothing is enforced by default.
	for _, text := range []string{"", "enforceNodeAllocatable: []", "enforceNodeAllocatable: [none]"} {
		_, err = read("cgroupsPerQOS: false\n" + text)
		require.NoError(t, err, text)
	}
	_, err = read("cgroupsPerQOS: false\nenforceNodeAllocatable: [pods]")
	require.ErrorContains(t, err, "needs cgroupsPerQOS: true")

	_, err = read("kubeReserved: {gpu: '1'}\nenforceNodeAllocatable: [pods, kube-reserved, bogus]\nsystemReservedCgroup: /s\nreservedSystemCPUs: 0-1\npodPidsLimit: -2\n")
	for _, want := range []string{
		"kubeReserved[gpu]", "kube-reserved needs kubeReservedCgroup", `"bogus" is none of`, "reservedSystemCPUs: contradicts", "podPidsLimit: -2",
	} {
		require.ErrorContains(t, err, want)
	}
	_, err = read("evictionHard: {memory.available: '-1', disk: 1Gi}\nevictionSoft: {memory.available: 1Gi}\nevictionPressureTransitionPeriod: -1s\nevictionMaxPodGracePeriod: -1\n")
	for _, want := range []string{
		"evictionHard[disk]: there is no such signal", "evictionHard[memory.available]", "evictionSoft[memory.available]", "evictionPressureTransitionPeriod: -1s", "evictionMaxPodGracePeriod: -1",
	} {
		require.ErrorContains(t, err, want)
	}
	c, err = read("evictionSoft: {nodefs.available: 20%}\nevictionSoftGracePeriod: {nodefs.available: 1m}\nevictionMinimumReclaim: {nodefs.available: 1Gi}\nmergeDefaultEvictionSettings: true\n"+
		"evictionPressureTransitionPeriod: 30s\nevictionMaxPodGracePeriod: 30\nlocalStorageCapacityIsolation: false\n", "--eviction-hard=memory.available<200Mi,pid.available<10%")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"memory.available": "200Mi", "pid.available": "10%"}, c.Kubelet.EvictionHard)
	for text, want := range map[string]string{
		"qosReserved: {memory: 50%}":  "qosReserved",
		"systemCgroups: /system":      "systemCgroups",
		"kubeletCgroups: /kubelet":    "kubeletCgroups",
		"memoryThrottlingFactor: 0.5": "MemoryQoS",
	} {
		_, err = read(text)
		require.ErrorContains(t, err, want)
	}
}
