package golden_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/testkit/golden"
)

func TestCanonical(t *testing.T) {
	config := &runtimeapi.ContainerConfig{
		Envs: []*runtimeapi.KeyValue{{Key: "B", Value: []byte("2")}, {Key: "A", Value: []byte("1")}},
		Mounts: []*runtimeapi.Mount{
			{HostPath: "/var/lib/kubelet/pods/u/containers/app/0a1b2c3d", ContainerPath: "/dev/termination-log"},
			{HostPath: "/tmp/x/etc-hosts", ContainerPath: "/etc/hosts"},
			{HostPath: "/a", ContainerPath: "/a", UidMappings: []*runtimeapi.IDMapping{{HostId: 65536, Length: 65536}}},
		},
		Annotations: map[string]string{"kubernetes.io/config.seen": "2026-01-01T00:00:00Z", "a": "<b>"},
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       &runtimeapi.LinuxContainerResources{CpuShares: 2, HugepageLimits: []*runtimeapi.HugepageLimit{{PageSize: "2MB"}, {PageSize: "1GB"}}},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{MaskedPaths: []string{"/proc/acpi", "/sys/devices/system/cpu/cpu0/thermal_throttle"}},
		},
	}
	got, err := golden.Canonical{Replace: []string{"/tmp/x/", "/var/lib/kubelet/pods/u/"}}.ContainerConfig(config)
	require.NoError(t, err)
	text, err := golden.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, `{
		"envs": [{"key": "A", "value": "1"}, {"key": "B", "value": "2"}],
		"mounts": [
			{"host_path": "/var/lib/kubelet/pods/u/containers/app/MESSAGE", "container_path": "/dev/termination-log"},
			{"host_path": "/var/lib/kubelet/pods/u/etc-hosts", "container_path": "/etc/hosts"},
			{"host_path": "/a", "container_path": "/a", "uidMappings": [{"host_id": "HOST_ID", "length": 65536}]}
		],
		"annotations": {"kubernetes.io/config.seen": "SEEN", "a": "<b>"},
		"linux": {"resources": {"cpu_shares": "2", "hugepage_limits": [{"page_size": "1GB"}, {"page_size": "2MB"}]}, "security_context": {"masked_paths": ["/proc/acpi"]}}
	}`, string(text))
	require.Contains(t, string(text), "<b>", "characters are written as they are")
	require.Equal(t, "B", config.Envs[0].Key, "the request itself is not changed")
}

func TestRuntimeKeepsRequests(t *testing.T) {
	hosts := filepath.Join(t.TempDir(), "hosts")
	require.NoError(t, os.WriteFile(hosts, []byte("127.0.0.1 localhost\n"), 0o644))
	synctest.Test(t, func(t *testing.T) {
		rt, err := golden.NewRuntime(golden.Environment{PodIPs: []string{"192.0.2.7"}})
		require.NoError(t, err)
		defer rt.Close()
		sandbox := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "a", Uid: "u"}}
		id, err := rt.RunPodSandbox(t.Context(), sandbox, "")
		require.NoError(t, err)
		for _, mounts := range [][]*runtimeapi.Mount{nil, {{ContainerPath: "/etc/hosts", HostPath: hosts}}} {
			_, err = rt.CreateContainer(t.Context(), id, &runtimeapi.ContainerConfig{
				Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: uint32(len(mounts))},
				Image:    &runtimeapi.ImageSpec{Image: "app"}, Mounts: mounts,
			}, sandbox)
			require.NoError(t, err)
		}
		got, count := rt.Requests("u")
		require.Equal(t, 3, count)
		require.Len(t, got.Sandboxes, 1)
		require.Len(t, got.Containers, 2)
		require.Equal(t, []string{"", "127.0.0.1 localhost\n"}, got.Hosts)
		none, _ := rt.Requests("other")
		require.Empty(t, none.Containers)

		status, err := rt.Status(t.Context(), false)
		require.NoError(t, err)
		require.True(t, status.Features.SupplementalGroupsPolicy)
		require.True(t, status.RuntimeHandlers[0].Features.UserNamespaces)
	})
}

func TestUnknownFieldOfEnvironment(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "environment.json"), []byte(`{"nodeNaem": "x"}`), 0o644))
	_, err := golden.ReadEnvironment(dir)
	require.ErrorContains(t, err, "nodeNaem")
}

func TestWriteAndRead(t *testing.T) {
	dir := t.TempDir()
	want := golden.Record{Pod: json.RawMessage(`{}`), Containers: []golden.Container{{SandboxConfig: golden.SameSandbox}}}
	require.NoError(t, golden.WriteJSON(filepath.Join(dir, "a.json"), want))
	got, err := golden.ReadRecord(dir, "a")
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestCanonicalOptions(t *testing.T) {
	config := &runtimeapi.PodSandboxConfig{DnsConfig: &runtimeapi.DNSConfig{Options: []string{"rotate", "ndots:1"}}}
	var c golden.Canonical
	value, err := c.Sandbox(&runtimeapi.RunPodSandboxRequest{Config: config})
	require.NoError(t, err)
	same, err := c.SandboxConfig(config)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"config": same}, value)
	require.Equal(t, map[string]any{"dns_config": map[string]any{"options": []any{"ndots:1", "rotate"}}}, same)
	require.Equal(t, "rotate", config.DnsConfig.Options[0], "the request itself is not changed")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
