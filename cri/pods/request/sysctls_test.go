package request

import (
	"slices"
	"strings"
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
		errs := ForbiddenSysctls(pod, "")
		if test.want == "" {
			require.Empty(t, errs, test.name)
			continue
		}
		require.Len(t, errs, 1, test.name)
		require.EqualError(t, errs[0], forbidden+test.name+": "+test.want)
	}
	require.Empty(t, ForbiddenSysctls(testPod("a"), ""))
}

// N13, N43: what is allowed besides, and what never is.
func TestAllowedSysctls(t *testing.T) {
	sets := func(name string, change ...func(*v1.Pod)) *v1.Pod {
		pod := testPod("a")
		pod.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: name, Value: "1"}}}
		for _, f := range change {
			f(pod)
		}
		return pod
	}
	host := func(pod *v1.Pod) { pod.Spec.HostNetwork, pod.Spec.HostIPC = true, true }
	require.Empty(t, ForbiddenSysctls(sets("kernel.msgmax"), "", "kernel.msg*"))
	require.Empty(t, ForbiddenSysctls(sets("kernel/msgmax"), "", "kernel.msgmax"))
	require.Empty(t, ForbiddenSysctls(sets("kernel.msgmax"), "", "kernel/msg*"))
	require.NotEmpty(t, ForbiddenSysctls(sets("kernel.sem"), "", "kernel.msg*"))
	require.NotEmpty(t, ForbiddenSysctls(sets("kernel.msgmax"), "", "kernel.msgma"))
	require.NotEmpty(t, ForbiddenSysctls(sets("kernel.msgmax", host), "", "kernel.msg*"))
	require.NotEmpty(t, ForbiddenSysctls(sets("fs.mqueue.msg_max", host), "", "fs.mqueue.*"))
	require.NotEmpty(t, ForbiddenSysctls(sets("net.core.somaxconn", host), "", "net.*"))
	require.NotEmpty(t, ForbiddenSysctls(sets("net.ipv4.tcp_syncookies", host), ""))

	require.Empty(t, CheckSysctls([]string{"kernel.msg*", "kernel.sem", "net.*", "net/core/somaxconn", "fs.mqueue.msg_max"}))
	var got []string
	for _, err := range CheckSysctls([]string{"kernel.*", "vm.swappiness", "*", "", "net.**", "kernel.msg*max", "Net.x"}) {
		got = append(got, err.Error())
	}
	const noName = " is no name of a sysctl, nor the begin of one with a * behind it"
	require.Equal(t, []string{
		"[0]: kernel.* is not known to count for a pod alone", "[1]: vm.swappiness is not known to count for a pod alone",
		`[2]: "*"` + noName, `[3]: ""` + noName, `[4]: "net.**"` + noName, `[5]: "kernel.msg*max"` + noName, `[6]: "Net.x"` + noName,
	}, got)
}

// Some count for a pod alone from a kernel on. A kernel of which that is not known is new.
func TestSysctlsOfOldKernels(t *testing.T) {
	names := func(kernel string) (safe []string) {
		for name := range safeSysctls {
			pod := testPod("a")
			pod.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: name, Value: "1"}}}
			if len(ForbiddenSysctls(pod, kernel)) == 0 {
				safe = append(safe, strings.TrimPrefix(name, "net.ipv4."))
			}
			require.Empty(t, ForbiddenSysctls(pod, kernel, name), "it is allowed, whatever the kernel is")
		}
		slices.Sort(safe)
		return safe
	}
	all := names("6.1.0-18-amd64")
	require.Len(t, all, 12)
	for _, kernel := range []string{"", "nonsense", "4.15.0", "4.15", "10.0"} {
		require.Equal(t, all, names(kernel), kernel)
	}
	without := func(which ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(which, name) })
	}
	buffers := []string{"tcp_rmem", "tcp_wmem"}
	fin := append(buffers, "tcp_fin_timeout")
	keepalive := append(fin, "tcp_keepalive_intvl", "tcp_keepalive_probes", "tcp_keepalive_time")
	require.Equal(t, without(buffers...), names("4.14.336"))
	require.Equal(t, without(buffers...), names("4.6.0-rc1"))
	require.Equal(t, without(fin...), names("4.5.7"))
	require.Equal(t, without(keepalive...), names("4.4.0"))
	require.Equal(t, without(append(keepalive, "ip_local_reserved_ports")...), names("3.10.0-1160.el7.x86_64"))
}
