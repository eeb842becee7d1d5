package request

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func TestForbiddenSysctls(t *testing.T) {
	const forbidden = "spec.securityContext.sysctls[0]: "
	hostNetwork := func(pod *v1.Pod) { pod.Spec.HostNetwork = true }
	hostIPC := func(pod *v1.Pod) { pod.Spec.HostIPC = true }
	for _, test := range []struct {
		name   string
		change func(*v1.Pod)
		want   string
	}{
		{name: "net.ipv4.tcp_syncookies"},
		{name: "net/ipv4/ip_unprivileged_port_start"},
		{name: "kernel.shm_rmid_forced"},
		{name: "kernel.shm_rmid_forced", change: hostNetwork},
		{name: "net.ipv4.tcp_rmem", change: hostIPC},
		{name: "kernel.msgmax", want: "not among the safe sysctls"},
		{name: "net.core.somaxconn", want: "not among the safe sysctls"},
		{name: "vm.swappiness", want: "not among the safe sysctls"},
		{name: "net.ipv4.tcp_rmem", change: hostNetwork, want: "not allowed with hostNetwork: it would change the node"},
		{name: "kernel.shm_rmid_forced", change: hostIPC, want: "not allowed with hostIPC: it would change the node"},
	} {
		pod := testPod("a")
		pod.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: test.name, Value: "1"}}}
		if test.change != nil {
			test.change(pod)
		}
		errs := ForbiddenSysctls(pod)
		if test.want == "" {
			require.Empty(t, errs, test.name)
			continue
		}
		require.Len(t, errs, 1, test.name)
		require.EqualError(t, errs[0], forbidden+test.name+": "+test.want)
	}
	require.Empty(t, ForbiddenSysctls(testPod("a")))
}
