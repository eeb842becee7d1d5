package request

import (
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
		ok    bool
	}{
		{"not asked for", v1.SecurityContext{}, Image{}, true},
		{"user of the spec", with(5), Image{Username: "app"}, true},
		{"root in the spec", with(0), Image{UID: ptr(int64(5))}, false},
		{"bad user", with(-1), Image{}, false},
		{"user of the image", wanted, Image{UID: ptr(int64(5))}, true},
		{"root in the image", wanted, Image{UID: ptr(int64(0))}, false},
		{"bad user in the image", wanted, Image{UID: ptr(int64(-5))}, false},
		{"name in the image", wanted, Image{Username: "app"}, false},
		{"nothing in the image", wanted, Image{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.ok, verifyNonRoot(tc.sc, tc.image) == nil) })
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
	for _, bad := range []*v1.SeccompProfile{{Type: "Other"}, {Type: v1.SeccompProfileTypeLocalhost}, {Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr("../x")}} {
		c.SecurityContext.SeccompProfile = bad
		_, err = h.b.containerSecurity(Instance{Pod: pod, Container: c, Image: Image{}})
		require.Error(t, err)
	}
	pod.Spec.SecurityContext.SupplementalGroupsPolicy = ptr(v1.SupplementalGroupsPolicy("Other"))
	_, err = h.b.sandboxSecurity(pod)
	require.Error(t, err)
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
