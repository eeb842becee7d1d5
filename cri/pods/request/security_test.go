package request

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// C29 and its kin.
func TestVerifyNonRoot(t *testing.T) {
	wanted := v1.SecurityContext{RunAsNonRoot: ptr(true)}
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
		{"not asked for", v1.SecurityContext{RunAsUser: ptr(int64(-1))}, Image{}, ""},
		{"user of the spec", with(1), Image{UID: ptr(int64(0))}, ""},
		{"root in the spec", with(0), Image{UID: ptr(int64(5))}, "container has runAsNonRoot and runAsUser is 0"},
		{"bad user", with(-1), Image{}, "container has an invalid runAsUser -1"},
		{"user of the image", wanted, Image{UID: ptr(int64(1))}, ""},
		{"root in the image", wanted, Image{UID: ptr(int64(0))}, "container has runAsNonRoot and image will run as root"},
		{"bad user in the image", wanted, Image{UID: ptr(int64(-1))}, "image has an invalid user -1"},
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

func TestContainerSecurity(t *testing.T) {
	h := newHarness(t)
	pod := testPod("a")
	c := &pod.Spec.Containers[0]
	got, err := h.b.containerSecurity(Instance{Pod: pod, Container: c, Image: Image{}})
	require.NoError(t, err)
	require.Equal(t, int64(0), got.RunAsUser.Value, "root when nobody says otherwise")
	require.Equal(t, runtimeapi.SecurityProfile_Unconfined, got.Seccomp.ProfileType)
	require.False(t, got.NoNewPrivs)
	require.Contains(t, got.MaskedPaths, "/proc/kcore")
	require.Contains(t, got.ReadonlyPaths, "/proc/sys")
	require.Equal(t, runtimeapi.NamespaceMode_CONTAINER, got.NamespaceOptions.Pid)

	got, err = h.b.containerSecurity(Instance{Pod: pod, Container: c, Image: Image{Username: "app"}})
	require.NoError(t, err)
	require.Nil(t, got.RunAsUser)
	require.Equal(t, "app", got.RunAsUsername)

	pod.Spec.HostPID, pod.Spec.HostIPC, pod.Spec.HostNetwork = true, true, true
	pod.Spec.SecurityContext = &v1.PodSecurityContext{
		RunAsUser: ptr(int64(1)), RunAsGroup: ptr(int64(2)), FSGroup: ptr(int64(3)), SupplementalGroups: []int64{4},
		SupplementalGroupsPolicy: ptr(v1.SupplementalGroupsPolicyStrict),
		SeccompProfile:           &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
		SELinuxOptions:           &v1.SELinuxOptions{Level: "s0"},
	}
	c.SecurityContext = &v1.SecurityContext{
		RunAsUser: ptr(int64(9)), Privileged: ptr(true), ReadOnlyRootFilesystem: ptr(true), AllowPrivilegeEscalation: ptr(false),
		Capabilities: &v1.Capabilities{Add: []v1.Capability{"NET_ADMIN"}, Drop: []v1.Capability{"ALL"}},
		ProcMount:    ptr(v1.UnmaskedProcMount),
	}
	got, err = h.b.containerSecurity(Instance{Pod: pod, Container: c, Image: Image{Username: "app"}})
	require.NoError(t, err)
	require.EqualValues(t, 9, got.RunAsUser.Value)
	require.EqualValues(t, 2, got.RunAsGroup.Value)
	require.Empty(t, got.RunAsUsername)
	require.True(t, got.Privileged && got.ReadonlyRootfs && got.NoNewPrivs)
	require.Equal(t, []string{"NET_ADMIN"}, got.Capabilities.AddCapabilities)
	require.Equal(t, []string{"ALL"}, got.Capabilities.DropCapabilities)
	require.Empty(t, got.MaskedPaths)
	require.Equal(t, []int64{3, 4}, got.SupplementalGroups)
	require.Equal(t, runtimeapi.SupplementalGroupsPolicy_Strict, got.SupplementalGroupsPolicy)
	require.Equal(t, runtimeapi.SecurityProfile_RuntimeDefault, got.Seccomp.ProfileType)
	require.Equal(t, "s0", got.SelinuxOptions.Level)
	for _, mode := range []runtimeapi.NamespaceMode{got.NamespaceOptions.Pid, got.NamespaceOptions.Ipc, got.NamespaceOptions.Network} {
		require.Equal(t, runtimeapi.NamespaceMode_NODE, mode)
	}
	sandbox, err := h.b.sandboxSecurity(pod)
	require.NoError(t, err)
	require.True(t, sandbox.Privileged)
	require.Equal(t, runtimeapi.SecurityProfile_RuntimeDefault, sandbox.Seccomp.ProfileType)

	c.SecurityContext.SeccompProfile = &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr("p.json")}
	got, err = h.b.containerSecurity(Instance{Pod: pod, Container: c, Image: Image{}})
	require.NoError(t, err)
	require.Equal(t, "/var/lib/kubelet/seccomp/p.json", got.Seccomp.LocalhostRef)
	for _, bad := range []*v1.SeccompProfile{{Type: "Other"}, {Type: "Other", LocalhostProfile: ptr("p.json")}, {Type: v1.SeccompProfileTypeLocalhost}, {Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr("../x")}} {
		c.SecurityContext.SeccompProfile = bad
		_, err = h.b.containerSecurity(Instance{Pod: pod, Container: c, Image: Image{}})
		require.Error(t, err)
	}
	pod.Spec.SecurityContext.SupplementalGroupsPolicy = ptr(v1.SupplementalGroupsPolicy("Other"))
	_, err = h.b.sandboxSecurity(pod)
	require.Error(t, err)
}

// What each processor tells of its heat is masked, in the processors' order.
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

func TestShareProcessNamespace(t *testing.T) {
	pod := testPod("a")
	pod.Spec.ShareProcessNamespace = ptr(true)
	got, err := newHarness(t).b.namespaces(pod)
	require.NoError(t, err)
	require.Equal(t, runtimeapi.NamespaceMode_POD, got.Pid)
}

// A group without a user is the containers' alone.
func TestSandboxUser(t *testing.T) {
	h := newHarness(t)
	pod := testPod("a")
	pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsGroup: ptr(int64(2))}
	got, err := h.b.sandboxSecurity(pod)
	require.NoError(t, err)
	require.Nil(t, got.RunAsUser)
	require.Nil(t, got.RunAsGroup)
	pod.Spec.SecurityContext.RunAsUser = ptr(int64(1))
	got, err = h.b.sandboxSecurity(pod)
	require.NoError(t, err)
	require.EqualValues(t, 1, got.RunAsUser.Value)
	require.EqualValues(t, 2, got.RunAsGroup.Value)
}

// 6.6, AppArmor: the container's field, its annotation, the pod's field, in both
// of the forms that runtimes know.
func TestAppArmor(t *testing.T) {
	profile := func(kind v1.AppArmorProfileType, local ...string) *v1.AppArmorProfile {
		out := &v1.AppArmorProfile{Type: kind}
		if len(local) > 0 {
			out.LocalhostProfile = &local[0]
		}
		return out
	}
	const ofContainer, ofOther = "container.apparmor.security.beta.kubernetes.io/a", "container.apparmor.security.beta.kubernetes.io/b"
	for _, tc := range []struct {
		name        string
		own, pod    *v1.AppArmorProfile
		annotations map[string]string
		want        *runtimeapi.SecurityProfile
		legacy      string
		fails       string
	}{
		{name: "none"},
		{name: "own", own: profile(v1.AppArmorProfileTypeLocalhost, "p"), pod: profile(v1.AppArmorProfileTypeUnconfined), annotations: map[string]string{ofContainer: "unconfined"},
			want: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: "p"}, legacy: "localhost/p"},
		{name: "annotation", pod: profile(v1.AppArmorProfileTypeUnconfined), annotations: map[string]string{ofContainer: "runtime/default"},
			want: &runtimeapi.SecurityProfile{}, legacy: "runtime/default"},
		{name: "local annotation", annotations: map[string]string{ofContainer: "localhost/q"},
			want: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: "q"}, legacy: "localhost/q"},
		{name: "pod", pod: profile(v1.AppArmorProfileTypeRuntimeDefault), annotations: map[string]string{ofOther: "unconfined"},
			want: &runtimeapi.SecurityProfile{}, legacy: "runtime/default"},
		{name: "unconfined", annotations: map[string]string{ofContainer: "unconfined"},
			want: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, legacy: "unconfined"},
		{name: "bad annotation", annotations: map[string]string{ofContainer: "none"}, fails: "invalid profile"},
		{name: "empty local annotation", annotations: map[string]string{ofContainer: "localhost/"}, fails: "localhostProfile is missing"},
		{name: "local without name", own: profile(v1.AppArmorProfileTypeLocalhost), fails: "localhostProfile is missing"},
		{name: "unknown", pod: profile("Other"), fails: "unknown type"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := testPod("a")
			pod.Annotations = tc.annotations
			pod.Spec.SecurityContext = &v1.PodSecurityContext{AppArmorProfile: tc.pod}
			pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{AppArmorProfile: tc.own}
			got, err := newHarness(t).b.containerSecurity(Instance{Pod: pod, Container: &pod.Spec.Containers[0]})
			if tc.fails != "" {
				require.ErrorContains(t, err, tc.fails)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want.String(), got.Apparmor.String())
			//lint:ignore SA1019 older runtimes read nothing else
			require.Equal(t, tc.legacy, got.ApparmorProfile)
		})
	}
}

// 6.6: an ephemeral container sees its target's processes, unless it sees those of
// all containers or of the node anyway.
func TestTarget(t *testing.T) {
	h := newHarness(t)
	e := &v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", Image: "busybox", Stdin: true}, TargetContainerName: "a"}
	pid := func(change func(*v1.PodSpec), target string) *runtimeapi.NamespaceOption {
		pod := testPod("a")
		pod.Spec.EphemeralContainers = []v1.EphemeralContainer{*e}
		change(&pod.Spec)
		config, err := h.b.Container(t.Context(), Instance{Pod: pod, Container: Ephemeral(e), TargetID: target})
		require.NoError(t, err)
		require.True(t, config.Stdin)
		require.Equal(t, "debug/0.log", config.LogPath)
		return config.Linux.SecurityContext.NamespaceOptions
	}
	got := pid(func(*v1.PodSpec) {}, "id")
	require.Equal(t, runtimeapi.NamespaceMode_TARGET, got.Pid)
	require.Equal(t, "id", got.TargetId)
	require.Equal(t, runtimeapi.NamespaceMode_CONTAINER, pid(func(*v1.PodSpec) {}, "").Pid)
	got = pid(func(s *v1.PodSpec) { s.ShareProcessNamespace = ptr(true) }, "id")
	require.Equal(t, runtimeapi.NamespaceMode_POD, got.Pid)
	require.Empty(t, got.TargetId)
	require.Equal(t, runtimeapi.NamespaceMode_NODE, pid(func(s *v1.PodSpec) { s.HostPID = true }, "id").Pid)
}

// A sandbox is privileged for any of its containers.
func TestPrivilegedSandbox(t *testing.T) {
	yes := &v1.SecurityContext{Privileged: ptr(true)}
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

// Groups that own volumes come on top of those of the spec, or alone.
func TestExtraGroups(t *testing.T) {
	h := newHarness(t)
	h.cfg.ExtraGroups = func(*v1.Pod) []int64 { return []int64{7} }
	h.restart()
	pod := testPod("a")
	groups := func() [][]int64 {
		sandbox, err := h.b.sandboxSecurity(pod)
		require.NoError(t, err)
		container, err := h.b.containerSecurity(Instance{Pod: pod, Container: &pod.Spec.Containers[0]})
		require.NoError(t, err)
		return [][]int64{sandbox.SupplementalGroups, container.SupplementalGroups}
	}
	require.Equal(t, [][]int64{{7}, {7}}, groups())
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr(int64(3)), SupplementalGroups: []int64{4}}
	require.Equal(t, [][]int64{{3, 4, 7}, {3, 4, 7}}, groups())
}

// C29: no configuration comes of a container that must not be root and is, and the
// error says why. Capabilities are the runtime's to judge.
func TestContainerRefused(t *testing.T) {
	h := newHarness(t)
	pod := testPod("a")
	c := &pod.Spec.Containers[0]
	c.SecurityContext = &v1.SecurityContext{RunAsNonRoot: ptr(true), Capabilities: &v1.Capabilities{Add: []v1.Capability{"NO_SUCH"}}}
	_, err := h.b.Container(t.Context(), Instance{Pod: pod, Container: c, Image: Image{Username: "app"}})
	require.ErrorContains(t, err, `container has runAsNonRoot and image has non-numeric user "app", cannot verify that it is not root`)
	c.SecurityContext.RunAsUser = ptr(int64(5))
	config, err := h.b.Container(t.Context(), Instance{Pod: pod, Container: c, Image: Image{Username: "app"}})
	require.NoError(t, err)
	require.Equal(t, []string{"NO_SUCH"}, config.Linux.SecurityContext.Capabilities.AddCapabilities)
	c.SecurityContext, pod.Spec.SecurityContext = nil, &v1.PodSecurityContext{RunAsNonRoot: ptr(true)}
	_, err = h.b.Container(t.Context(), Instance{Pod: pod, Container: c})
	require.ErrorContains(t, err, "image will run as root", "the pod forbids it for all")
}
