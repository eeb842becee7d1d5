package node

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	nodestatus "github.com/podwright/podwright/status/node"
)

func TestReservations(t *testing.T) {
	m := &nodestatus.Machine{Cores: 4, Memory: 8 << 30, Storage: 100 << 30}
	yes := true
	for _, c := range []struct {
		name            string
		k               kubeletv1beta1.KubeletConfiguration
		cpu, mem, store string
	}{
		{"defaults", kubeletv1beta1.KubeletConfiguration{}, "0", "100Mi", "10737418400"},
		{"N22", kubeletv1beta1.KubeletConfiguration{SystemReserved: map[string]string{"memory": "1Gi"}, EvictionHard: map[string]string{"memory.available": "100Mi"}}, "0", "1124Mi", "0"},
		{"both reserved", kubeletv1beta1.KubeletConfiguration{
			SystemReserved: map[string]string{"cpu": "100m", "ephemeral-storage": "1Gi"}, KubeReserved: map[string]string{"cpu": "1"}, EvictionHard: map[string]string{},
		}, "1100m", "0", "1Gi"},
		{"shares", kubeletv1beta1.KubeletConfiguration{EvictionHard: map[string]string{"memory.available": "25%", "nodefs.available": "5Gi"}}, "0", "2Gi", "5Gi"},
		{"all of it", kubeletv1beta1.KubeletConfiguration{EvictionHard: map[string]string{"memory.available": "100%", "nodefs.available": "0%"}}, "0", "8Gi", "0"},
		{"N32: merged", kubeletv1beta1.KubeletConfiguration{EvictionHard: map[string]string{"memory.available": "200Mi"}, MergeDefaultEvictionSettings: &yes}, "0", "200Mi", "10737418400"},
		{"processors", kubeletv1beta1.KubeletConfiguration{
			SystemReserved: map[string]string{"cpu": "100m"}, KubeReserved: map[string]string{"cpu": "1", "memory": "1Mi"}, ReservedSystemCPUs: "0-1,3", EvictionHard: map[string]string{},
		}, "3", "1Mi", "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := ParseReservations(&c.k)
			require.NoError(t, err)
			got := r.Of(m)
			for name, want := range map[v1.ResourceName]string{"cpu": c.cpu, "memory": c.mem, "ephemeral-storage": c.store} {
				q := got[name]
				require.Equal(t, want, q.String(), name)
			}
			require.NoError(t, r.Check(m, CPUs{0: true, 1: true, 2: true, 3: true}))
			require.Equal(t, got, r.Of(m), "Of does not change the reservations")
		})
	}
	require.NotNil(t, Reservations{}.Of(m))
}

func TestInvalidReservations(t *testing.T) {
	for want, k := range map[string]kubeletv1beta1.KubeletConfiguration{
		"kubeReserved[cpu]":               {KubeReserved: map[string]string{"cpu": "many"}},
		"systemReserved[memory]":          {SystemReserved: map[string]string{"memory": "-1"}},
		"evictionHard[memory.available]":  {EvictionHard: map[string]string{"memory.available": "x"}},
		"evictionHard[nodefs.available]":  {EvictionHard: map[string]string{"nodefs.available": "101%"}},
		"kubeReserved[example.com/x]":     {KubeReserved: map[string]string{"example.com/x": "1"}},
		"systemReserved[hugepages-2Mi]":   {SystemReserved: map[string]string{"hugepages-2Mi": "1Gi"}},
		"reservedSystemCPUs: \"1-\"":      {ReservedSystemCPUs: "1-"},
		"reservedSystemCPUs: \"3-1\"":     {ReservedSystemCPUs: "3-1"},
		"evictionHard[memory.available]:": {EvictionHard: map[string]string{"memory.available": "-5%"}},
	} {
		_, err := ParseReservations(&k)
		require.ErrorContains(t, err, want)
	}
	_, err := ParseReservations(&kubeletv1beta1.KubeletConfiguration{KubeReserved: map[string]string{"cpu": "x"}, SystemReserved: map[string]string{"disk": "1"}, ReservedSystemCPUs: "x"})
	for _, field := range []string{"kubeReserved[cpu]", "systemReserved[disk]", "reservedSystemCPUs"} {
		require.ErrorContains(t, err, field, "all at once")
	}
	r, err := ParseReservations(&kubeletv1beta1.KubeletConfiguration{KubeReserved: map[string]string{"memory": "9Gi", "pid": "2000"}, ReservedSystemCPUs: "1"})
	require.NoError(t, err)
	err = r.Check(&nodestatus.Machine{Cores: 1, Memory: 8 << 30, Pids: 1000}, CPUs{0: true})
	require.ErrorContains(t, err, "9316Mi of memory exceed the machine's 8Gi")
	require.ErrorContains(t, err, "2k of pid exceed the machine's 1k")
	require.ErrorContains(t, err, "processor 1 is not online")
}

// A machine may have offline processors of any number.
func TestReservedCPUsAreOnline(t *testing.T) {
	online, err := OnlineCPUs(files(map[string]string{"sys/devices/system/cpu/online": "0,2-3,8\n"}))
	require.NoError(t, err)
	for list, off := range map[string]string{"0": "", "2-3": "", "8": "", "0-1": "processor 1 ", "4": "processor 4 ", "8,3,9": "processor 9 "} {
		r, err := ParseReservations(&kubeletv1beta1.KubeletConfiguration{ReservedSystemCPUs: list})
		require.NoError(t, err)
		err = r.Check(&nodestatus.Machine{Cores: 4, Memory: 8 << 30}, online)
		if off == "" {
			require.NoError(t, err, list)
			continue
		}
		require.ErrorContains(t, err, off, list)
	}
}

// System and Kube return separate copies.
func TestReservationsAreCopies(t *testing.T) {
	r, err := ParseReservations(&kubeletv1beta1.KubeletConfiguration{SystemReserved: map[string]string{"memory": "1Gi"}, KubeReserved: map[string]string{"pid": "100"}})
	require.NoError(t, err)
	delete(r.System(), v1.ResourceMemory)
	require.Len(t, r.System(), 1)
	require.Contains(t, r.Kube(), v1.ResourceName("pid"))
	has := Capacity(&nodestatus.Machine{Cores: 2, Memory: 1 << 30, Pids: 9, HugePages: map[int64]int64{2 << 20: 4 << 20}})
	require.Len(t, has, 4)
	pids, huge := has["pid"], has["hugepages-2Mi"]
	require.EqualValues(t, 9, pids.Value())
	require.EqualValues(t, 4<<20, huge.Value())
}
