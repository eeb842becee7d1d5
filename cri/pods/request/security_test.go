package request

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// TestVerifyNonRoot covers C29 and its variants.
func TestVerifyNonRoot(t *testing.T) {
	wanted := v1.SecurityContext{RunAsNonRoot: new(true)}
	with := func(uid int64) v1.SecurityContext {
		sc := wanted
		sc.RunAsUser = &uid
		return sc
	}
	for _, tc := range []struct {
		name  string
		sc    v1.SecurityContext
		image Image
		fails string
	}{
		{"not asked for", v1.SecurityContext{RunAsUser: new(int64(-1))}, Image{}, ""},
		{"user of the spec", with(1), Image{UID: new(int64(0))}, ""},
		{"root in the spec", with(0), Image{UID: new(int64(5))}, "container has runAsNonRoot and runAsUser is 0"},
		{"bad user", with(-1), Image{}, "container has an invalid runAsUser -1"},
		{"user of the image", wanted, Image{UID: new(int64(1))}, ""},
		{"root in the image", wanted, Image{UID: new(int64(0))}, "container has runAsNonRoot and image will run as root"},
		{"bad user in the image", wanted, Image{UID: new(int64(-1))}, "image has an invalid user -1"},
		{"name in the image", wanted, Image{Username: "app"}, `container has runAsNonRoot and image has non-numeric user "app", cannot verify that it is not root`},
		{"nothing in the image", wanted, Image{}, "container has runAsNonRoot and image will run as root"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := verifyNonRoot(tc.sc, tc.image)
			if tc.fails == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tc.fails)
		})
	}
}

// The thermal files of each processor are masked, in order of the processors.
func TestMaskedProcessors(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for _, cpu := range []string{"cpu2", "cpu9", "cpu10", "cpu100"} {
		path := filepath.Join(dir, cpu, "thermal_throttle")
		require.NoError(t, os.MkdirAll(path, 0o755))
		want = append(want, path)
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "cpufreq", "thermal_throttle"), 0o755))
	got := maskedPaths(dir)
	require.Equal(t, want, got[len(got)-4:])
	require.Equal(t, "/sys/devices/virtual/powercap", got[len(got)-5])
}

// A sandbox is privileged if any of its containers is.
func TestPrivilegedSandbox(t *testing.T) {
	yes := &v1.SecurityContext{Privileged: new(true)}
	for name, change := range map[string]func(*v1.Pod){
		"regular": func(p *v1.Pod) { p.Spec.Containers[1].SecurityContext = yes },
		"init":    func(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{{SecurityContext: yes}} },
		"ephemeral": func(p *v1.Pod) {
			p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{SecurityContext: yes}}}
		},
	} {
		pod := testPod("a", "b")
		require.False(t, anyPrivileged(pod))
		change(pod)
		require.True(t, anyPrivileged(pod), name)
	}
}

// Groups that own volumes are added to the groups of the spec.
func TestExtraGroups(t *testing.T) {
	h := newHarness(t)
	h.cfg.ExtraGroups = func(*v1.Pod) []int64 { return []int64{7} }
	pod := testPod("a")
	groups := func() [][]int64 {
		sandbox, err := h.builder().sandboxSecurity(pod)
		require.NoError(t, err)
		container, err := h.builder().containerSecurity(Instance{Pod: pod, Container: &pod.Spec.Containers[0]})
		require.NoError(t, err)
		return [][]int64{sandbox.SupplementalGroups, container.SupplementalGroups}
	}
	require.Equal(t, [][]int64{{7}, {7}}, groups())
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(3)), SupplementalGroups: []int64{4}}
	require.Equal(t, [][]int64{{3, 4, 7}, {3, 4, 7}}, groups())
}

// 6.6: invalid security contexts are refused. The golden records of cri/pods cover valid ones,
// except for the masked paths.
func TestContainerSecurity(t *testing.T) {
	seccomp := func(kind v1.SeccompProfileType, local ...string) func(*v1.Pod) {
		profile := &v1.SeccompProfile{Type: kind}
		for i := range local {
			profile.LocalhostProfile = &local[i]
		}
		return func(p *v1.Pod) { p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{SeccompProfile: profile} }
	}
	apparmor := func(profile *v1.AppArmorProfile) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.SecurityContext = &v1.PodSecurityContext{AppArmorProfile: profile} }
	}
	annotated := func(profile string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/a": profile}
		}
	}
	nonRoot := &v1.PodSecurityContext{RunAsNonRoot: new(true)}
	for name, tc := range map[string]struct {
		change func(*v1.Pod)
		fails  string
	}{
		"none":                             {func(*v1.Pod) {}, ""},
		"seccomp":                          {seccomp("Other"), "without a usable profile"},
		"seccomp with a name":              {seccomp("Other", "p.json"), "without a usable profile"},
		"seccomp without a name":           {seccomp(v1.SeccompProfileTypeLocalhost), "without a usable profile"},
		"seccomp up":                       {seccomp(v1.SeccompProfileTypeLocalhost, "../x"), "without a usable profile"},
		"apparmor":                         {apparmor(&v1.AppArmorProfile{Type: "Other"}), "unknown type"},
		"apparmor without a name":          {apparmor(&v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost}), "localhostProfile is missing"},
		"apparmor annotation":              {annotated("none"), "invalid profile"},
		"apparmor annotation with no name": {annotated("localhost/"), "localhostProfile is missing"},
		"apparmor of another container": {func(p *v1.Pod) {
			p.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/b": "none"}
		}, ""},
		"groups": {func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: new(v1.SupplementalGroupsPolicy("Other"))}
		}, "supplementalGroupsPolicy"},
		"C29 the pod forbids root": {func(p *v1.Pod) { p.Spec.SecurityContext = nonRoot }, `image has non-numeric user "app", cannot verify that it is not root`},
	} {
		t.Run(name, func(t *testing.T) {
			pod := testPod("a")
			tc.change(pod)
			config, err := newHarness(t).builder().Container(t.Context(), Instance{Pod: pod, Container: &pod.Spec.Containers[0], Image: Image{Username: "app"}})
			if tc.fails != "" {
				require.ErrorContains(t, err, tc.fails)
				return
			}
			require.NoError(t, err)
			got := config.Linux.SecurityContext
			require.Contains(t, got.MaskedPaths, "/proc/kcore")
			require.Contains(t, got.ReadonlyPaths, "/proc/sys")
			require.Nil(t, got.Apparmor)
			require.Equal(t, "app", got.RunAsUsername)
			require.Nil(t, got.RunAsUser)
		})
	}
}

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

// N13, N43: sysctls allowed by configuration, and sysctls that are never allowed.
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
	const noName = " is not a sysctl name, or a prefix with a trailing *"
	require.Equal(t, []string{
		"[0]: kernel.* is not a namespaced sysctl", "[1]: vm.swappiness is not a namespaced sysctl",
		`[2]: "*"` + noName, `[3]: ""` + noName, `[4]: "net.**"` + noName, `[5]: "kernel.msg*max"` + noName, `[6]: "Net.x"` + noName,
	}, got)
}

// Some sysctls are safe only from a kernel version on. An unavailable version counts as new.
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
