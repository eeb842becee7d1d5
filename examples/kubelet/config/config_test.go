package config

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

func withFile(t *testing.T, text string, args ...string) (*Config, error) {
	t.Helper()
	path := filepath.Join(write(t, map[string]string{"kubelet.yaml": head + text}), "kubelet.yaml")
	return FromArgs(append([]string{"--hostname-override=n", "--config", path}, args...), io.Discard)
}

func write(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

// defaultFields are the defaults of a node with an API server, in the order of the documentation of
// KubeletConfiguration.
const defaultFields = `{enableServer: true, podLogsDir: /var/log/pods, syncFrequency: 1m0s, fileCheckFrequency: 20s, httpCheckFrequency: 20s, address: 0.0.0.0, port: 10250,
	authentication: {x509: {}, webhook: {enabled: true, cacheTTL: 2m0s}, anonymous: {enabled: false}},
	authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 5m0s, cacheUnauthorizedTTL: 30s}},
	registryPullQPS: 5, registryBurst: 10, imagePullCredentialsVerificationPolicy: NeverVerifyPreloadedImages, eventRecordQPS: 50, eventBurst: 100,
	enableDebuggingHandlers: true, healthzPort: 10248, healthzBindAddress: 127.0.0.1, oomScoreAdj: -999, streamingConnectionIdleTimeout: 4h0m0s,
	nodeStatusUpdateFrequency: 10s, nodeStatusReportFrequency: 5m0s, nodeLeaseDurationSeconds: 40, imageMinimumGCAge: 2m0s, imageMaximumGCAge: 0s,
	imageGCHighThresholdPercent: 85, imageGCLowThresholdPercent: 80, volumeStatsAggPeriod: 1m0s, cgroupsPerQOS: true, cgroupDriver: cgroupfs,
	cpuManagerPolicy: none, cpuManagerReconcilePeriod: 10s, memoryManagerPolicy: None, topologyManagerPolicy: none, topologyManagerScope: container, hairpinMode: promiscuous-bridge, runtimeRequestTimeout: 2m0s, maxPods: 110, podPidsLimit: -1, resolvConf: /etc/resolv.conf, cpuCFSQuota: true,
	cpuCFSQuotaPeriod: 100ms, nodeStatusMaxImages: 50, maxOpenFiles: 1000000, contentType: application/vnd.kubernetes.protobuf, kubeAPIQPS: 50, kubeAPIBurst: 100,
	serializeImagePulls: true, evictionPressureTransitionPeriod: 5m0s, enableControllerAttachDetach: true, iptablesMasqueradeBit: 14, iptablesDropBit: 15, mergeDefaultEvictionSettings: false, makeIPTablesUtilChains: true, failSwapOn: true,
	memorySwap: {swapBehavior: NoSwap}, containerLogMaxSize: 10Mi, containerLogMaxFiles: 5, containerLogMaxWorkers: 1, containerLogMonitorInterval: 10s,
	enforceNodeAllocatable: [pods], configMapAndSecretChangeDetectionStrategy: Watch, volumePluginDir: /usr/libexec/kubernetes/kubelet-plugins/volume/exec/, enableSystemLogHandler: true, enableSystemLogQuery: false, shutdownGracePeriod: 0s, shutdownGracePeriodCriticalPods: 0s,
	logging: {format: text, flushFrequency: 5s, verbosity: 0, options: {text: {infoBufferSize: "0"}, json: {infoBufferSize: "0"}}},
	crashLoopBackOff: {maxContainerRestartPeriod: 5m0s}, enableProfilingHandler: true, enableDebugFlagsHandler: true, seccompDefault: false, memoryThrottlingFactor: 0.9, memoryReservationPolicy: None, registerNode: true,
	localStorageCapacityIsolation: true, containerRuntimeEndpoint: "unix:///run/containerd/containerd.sock",
	imageServiceEndpoint: "unix:///run/containerd/containerd.sock", failCgroupV1: true, userNamespaces: {idsPerPod: 65536}}`

func TestDefaults(t *testing.T) {
	c, err := FromArgs([]string{"--hostname-override=Node-1", "--kubeconfig=/k"}, io.Discard)
	require.NoError(t, err)
	require.Empty(t, c.Warnings)
	data, err := json.Marshal(&c.Kubelet)
	require.NoError(t, err)
	want, err := json.Marshal(fields(t, defaultFields))
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(data))
	require.Equal(t, Flags{
		NodeName: "node-1", RootDir: "/var/lib/kubelet", CertDir: "/var/lib/kubelet/pki", Kubeconfig: "/k", ContainerLogsDir: "/var/log/containers",
		MaxDeadContainers: -1, MaxDeadPerContainer: 1,
	}, c.Flags)
	require.Equal(t, "127.0.0.1:10248", c.HealthzAddress())
	require.Equal(t, "0.0.0.0:10250", c.APIAddress())
	require.Empty(t, c.ReadOnlyAddress())

	again := *c.Kubelet.DeepCopy()
	SetDefaults(&again)
	require.Equal(t, c.Kubelet, again, "set fields stay")
	require.Equal(t, c.Kubelet, Default().Kubelet)
}

func TestEmbeddedKeepsToTheUsersFolders(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/home/u/state")
	c, err := FromArgs([]string{"--container-runtime-endpoint=embedded"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "/home/u/state/podwright", c.Flags.RootDir)
	require.Equal(t, "/home/u/state/podwright/logs", c.Kubelet.PodLogsDir)
	require.Empty(t, c.Flags.ContainerLogsDir)
}

// A standalone node with the embedded runtime serves the status page on a free port of loopback,
// unless a port is set.
func TestEmbeddedServesTheStatusPage(t *testing.T) {
	for args, want := range map[string]string{
		"":                      "127.0.0.1:0",
		"--read-only-port=0":    "",
		"--read-only-port=7777": "0.0.0.0:7777",
		"--kubeconfig=/k":       "",
	} {
		c, err := FromArgs(append(strings.Fields(args), "--container-runtime-endpoint=embedded", "--root-dir=/r"), io.Discard)
		require.NoError(t, err)
		require.Equal(t, want, c.ReadOnlyAddress(), args)
	}
}

// --anonymous-auth=false without an API server configures no authentication: the kubelet API is
// not served.
func TestStandaloneWithoutAnonymousClients(t *testing.T) {
	c, err := FromArgs([]string{"--anonymous-auth=false"}, io.Discard)
	require.NoError(t, err)
	require.Empty(t, c.APIAddress())
}

// Without a home folder there is one error, with a remedy.
func TestEmbeddedWithoutAHome(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	_, err := FromArgs([]string{"--container-runtime-endpoint=embedded"}, io.Discard)
	require.EqualError(t, err, "--root-dir is not set, and there is no folder for user state: $HOME is not defined")
	c, err := FromArgs([]string{"--container-runtime-endpoint=embedded", "--root-dir=/r"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "/r/logs", c.Kubelet.PodLogsDir)
}

// ObjectsDir may be relative to the working folder.
func TestObjectsDir(t *testing.T) {
	c, err := FromArgs([]string{"--objects-dir=objects"}, io.Discard)
	require.NoError(t, err)
	here, err := os.Getwd()
	require.NoError(t, err)
	require.Equal(t, filepath.Join(here, "objects"), c.Flags.ObjectsDir)
}
