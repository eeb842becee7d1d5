package request

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
)

// Memory is all of the interfaces.
var (
	_ ConfigMaps = &Memory{}
	_ Secrets    = &Memory{}
	_ Services   = &Memory{}
	_ Volumes    = &Memory{}
	_ SubPaths   = &Memory{}
)

// Whatever a manifest holds, building neither panics nor changes the pod, gives
// the same bytes again, and leaves no sub path behind when it fails.
func FuzzBuild(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"a","namespace":"shop","uid":"1"},"spec":{"containers":[{"name":"a","envFrom":[{"configMapRef":{"name":"conf"}}],
		"env":[{"name":"X","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['a']"}}},{"name":"Y","value":"$(X)$(B)"}],
		"volumeMounts":[{"name":"v","mountPath":"/v","subPathExpr":"$(B)"}]}]}}`))
	f.Add([]byte(`{"spec":{"hostNetwork":true,"hostUsers":false,"dnsPolicy":"None","dnsConfig":{"options":[{"name":""}]},"resources":{"requests":{"memory":"1"}},
		"initContainers":[{"restartPolicy":"Always","resources":{"limits":{"cpu":"-1","hugepages-2Mi":"1e30"}}}],"containers":[{"ports":[{"containerPort":1}]}],
		"ephemeralContainers":[{"securityContext":{"privileged":true}}]}}`))
	f.Add([]byte(`{"metadata":{"annotations":{"container.apparmor.security.beta.kubernetes.io/a":"x"}},"spec":{"hostname":"-","subdomain":"s","setHostnameAsFQDN":true,
		"securityContext":{"sysctls":[{"name":"a/b.c"}],"supplementalGroupsPolicy":"X"},"containers":[{"name":"a"}]}}`))
	f.Fuzz(func(t *testing.T, manifest []byte) {
		pod := &v1.Pod{}
		if json.Unmarshal(manifest, pod) != nil {
			return
		}
		m := objects()
		m.SetVolume(pod.UID, "v", Volume{Path: "/vol"})
		m.SetServices(service("shop", "db", "10.0.0.1", v1.ServicePort{Port: 1}))
		b, err := New(Config{
			Node:   Node{MemoryCapacity: 1 << 30, CgroupV2: true, SwapController: true, LimitedSwap: true, SwapCapacity: 1 << 30, HugePageSizes: []string{"2MB"}, MemoryQoS: MemoryQoS{Enabled: true}},
			DNS:    DNS{NoHostResolver: true, ClusterServers: []string{"10.96.0.10"}, ClusterDomain: "cluster.local"},
			Inputs: Inputs{ConfigMaps: m, Secrets: m, Services: m, Volumes: m, SubPaths: m},
		})
		require.NoError(t, err)
		before := pod.DeepCopy()
		twice(t, func() (proto.Message, error) { return b.Sandbox(pod, 1) })
		list := append(pod.Spec.Containers[:len(pod.Spec.Containers):len(pod.Spec.Containers)], pod.Spec.InitContainers...)
		for i := range pod.Spec.EphemeralContainers {
			list = append(list, *Ephemeral(&pod.Spec.EphemeralContainers[i]))
		}
		for i := range list {
			left := m.Prepared()
			_, failed := b.Container(t.Context(), Instance{Pod: pod, Container: &list[i], PodIPs: []string{"10.0.0.2"}})
			if failed != nil {
				require.LessOrEqual(t, m.Prepared(), left)
			}
			twice(t, func() (proto.Message, error) {
				return b.Container(t.Context(), Instance{Pod: pod, Container: &list[i], PodIPs: []string{"10.0.0.2"}})
			})
		}
		_, _ = b.Hosts(pod, []string{"10.0.0.2"})
		_ = ForbiddenSysctls(pod)
		require.Equal(t, before, pod)
	})
}

func twice(t *testing.T, build func() (proto.Message, error)) {
	t.Helper()
	first, err := build()
	second, again := build()
	if err != nil {
		require.EqualError(t, again, err.Error())
		return
	}
	require.NoError(t, again)
	require.True(t, proto.Equal(first, second))
}
