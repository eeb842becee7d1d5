package config

import (
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func requireFields(t *testing.T, c *Config, text string) {
	t.Helper()
	var got map[string]any
	data, err := json.Marshal(&c.Kubelet)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &got))
	requireWithin(t, fields(t, text), got)
}

// fields parses the fields of a text, which may contain tabs.
func fields(t *testing.T, text string) (fields map[string]any) {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict([]byte(strings.ReplaceAll(text, "\t", " ")), &fields))
	return fields
}

func requireWithin(t *testing.T, want, got map[string]any) {
	t.Helper()
	for name, value := range want {
		if fields, nested := value.(map[string]any); nested && got[name] != nil {
			requireWithin(t, fields, got[name].(map[string]any))
			continue
		}
		require.Equal(t, value, got[name], name)
	}
}

// Values of the file are used unchanged, including false and empty ones.
func TestValuesOfTheFile(t *testing.T) {
	for _, text := range []string{
		// Settings of containers.
		`{clusterDNS: [10.0.0.10, "fd00::10"], clusterDomain: cluster.local, resolvConf: "", cpuCFSQuota: false, cpuCFSQuotaPeriod: 5ms, seccompDefault: true,
			singleProcessOOMKill: true, userNamespaces: {idsPerPod: 131072}, memorySwap: {swapBehavior: LimitedSwap}}`,
		// Images and logs.
		`{imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages, preloadedImagesVerificationAllowlist: [registry.example.com/team/*],
			imageGCHighThresholdPercent: 70, imageGCLowThresholdPercent: 0, imageMinimumGCAge: 1m0s, imageMaximumGCAge: 48h0m0s,
			containerLogMaxSize: 1500k, containerLogMaxFiles: 2, containerLogMaxWorkers: 3, containerLogMonitorInterval: 3s,
			serializeImagePulls: false, maxParallelImagePulls: 4, registryPullQPS: 0, crashLoopBackOff: {maxContainerRestartPeriod: 5s}}`,
		`{containerLogMaxSize: "-1", memorySwap: {swapBehavior: NoSwap}}`,
		// Log and traces.
		`{logging: {format: json, flushFrequency: 2s, verbosity: 4}, tracing: {endpoint: "collector:4317", samplingRatePerMillion: 100}, makeIPTablesUtilChains: false}`,
		`{tracing: {endpoint: "localhost:4317"}}`, `{tracing: {endpoint: "dns://google.com:4317"}}`, `{tracing: {endpoint: "unix:///run/collector.sock"}}`, `{tracing: {endpoint: "10.0.0.1:4317"}}`,
		// Reservations and enforcement. Without cgroups the default is empty.
		`{systemReserved: {memory: 1Gi}, kubeReserved: {cpu: 100m, pid: "50"}, enforceNodeAllocatable: [pods, system-reserved], systemReservedCgroup: /system}`,
		`{cgroupsPerQOS: false}`, `{cgroupsPerQOS: false, enforceNodeAllocatable: [none]}`,
		`{evictionSoft: {nodefs.available: 20%}, evictionSoftGracePeriod: {nodefs.available: 1m}, evictionMinimumReclaim: {nodefs.available: 1Gi},
			mergeDefaultEvictionSettings: true, evictionPressureTransitionPeriod: 30s, evictionMaxPodGracePeriod: 30, localStorageCapacityIsolation: false}`,
		// Grace periods for a shutdown of the node.
		`{shutdownGracePeriod: 30s, shutdownGracePeriodCriticalPods: 10s}`, `{shutdownGracePeriod: 1s, shutdownGracePeriodCriticalPods: 1s}`,
		`{shutdownGracePeriodByPodPriority: [{priority: 1000, shutdownGracePeriodSeconds: 5}, {priority: -7, shutdownGracePeriodSeconds: 0}]}`,
		// Manifests.
		`{staticPodURL: "https://server/pods", staticPodURLHeader: {X-Team: [a, b]}, httpCheckFrequency: 5s}`,
		// Gates.
		`{featureGates: {LocalStorageCapacityIsolationFSQuotaMonitoring: true, ComponentFlagz: false}}`,
	} {
		file, err := yaml.Marshal(fields(t, text))
		require.NoError(t, err)
		c, err := withFile(t, string(file))
		require.NoError(t, err, text)
		requireFields(t, c, text)
	}
	_, err := withFile(t, "cgroupsPerQOS: false\nenforceNodeAllocatable: []")
	require.NoError(t, err)
}

// Paths are relative to the file.
func TestRelativePaths(t *testing.T) {
	const text = "resolvConf: resolv.conf\nstaticPodPath: manifests\ntlsCertFile: a.crt\ntlsPrivateKeyFile: a.key\nauthentication: {x509: {clientCAFile: ca.crt}}"
	dir := write(t, map[string]string{"kubelet.yaml": head + text})
	c, err := FromArgs([]string{"--hostname-override=n", "--kubeconfig=/k", "--config", dir + "/kubelet.yaml"}, io.Discard)
	require.NoError(t, err)
	requireFields(t, c, "{resolvConf: "+dir+"/resolv.conf, staticPodPath: "+dir+"/manifests, tlsCertFile: "+dir+"/a.crt, tlsPrivateKeyFile: "+dir+"/a.key, authentication: {x509: {clientCAFile: "+dir+"/ca.crt}}}")
}

// A1: flags of all types override the file. A3: gates are merged key by key, and a later flag
// overrides an earlier one.
func TestFlagsWinOverTheFile(t *testing.T) {
	for _, c := range []struct {
		file string
		args []string
		want string
	}{
		{
			"eventRecordQPS: 7\nclusterDNS: [10.0.0.1]\nlogging: {verbosity: 2}\nseccompDefault: true",
			[]string{
				"--kubeconfig=/k", "--event-qps=0", "--cluster-dns=10.0.0.2,10.0.0.3", "--cluster-dns=10.0.0.4", "-v", "6", "--seccomp-default=false", "--cpu-cfs-quota",
				"--minimum-image-ttl-duration=3m", "--registry-burst=3", "--container-log-max-size=1Mi", "--image-service-endpoint=unix:///i", "--resolv-conf=", "--kube-api-content-type=application/json",
			},
			`{eventRecordQPS: 0, clusterDNS: [10.0.0.2, 10.0.0.3, 10.0.0.4], logging: {verbosity: 6}, seccompDefault: false, cpuCFSQuota: true,
				imageMinimumGCAge: 3m0s, registryBurst: 3, containerLogMaxSize: 1Mi, imageServiceEndpoint: "unix:///i", resolvConf: "", contentType: application/json}`,
		},
		{"", []string{"--logging-format=json", "--log-flush-frequency=1s", "--make-iptables-util-chains=false"}, `{logging: {format: json, flushFrequency: 1s}, makeIPTablesUtilChains: false}`},
		{
			"kubeReserved: {memory: 1Gi}", []string{"--kube-reserved=cpu=100m,pid=50", "--protect-kernel-defaults", "--fail-swap-on=false", "--eviction-hard=memory.available<200Mi,pid.available<10%"},
			`{kubeReserved: {cpu: 100m, pid: "50"}, protectKernelDefaults: true, failSwapOn: false, evictionHard: {memory.available: 200Mi, pid.available: 10%}}`,
		},
		{
			"featureGates: {ComponentFlagz: true, ComponentStatusz: false}", []string{"--kubeconfig=/k", "--feature-gates=ComponentFlagz=false,RotateKubeletServerCertificate=true", "--feature-gates=EventedPLEG=false"},
			"featureGates: {ComponentFlagz: false, ComponentStatusz: false, RotateKubeletServerCertificate: true, EventedPLEG: false}",
		},
		{
			"port: 1\ntlsMinVersion: VersionTLS13\nauthentication: {webhook: {cacheTTL: 3s}}\nauthorization: {webhook: {cacheAuthorizedTTL: 4s}}\nenableSystemLogQuery: true",
			[]string{"--kubeconfig=/k", "--port=2", "--authentication-token-webhook-cache-ttl=5s", "--enable-debugging-handlers=false", "--tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384"},
			`{port: 2, authentication: {webhook: {cacheTTL: 5s}}, authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 4s}}, enableDebuggingHandlers: false,
				enableSystemLogQuery: true, tlsCipherSuites: [TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384]}`,
		},
		{
			"nodeStatusUpdateFrequency: 20s\nproviderID: a\nregisterNode: true\nregisterWithTaints: [{key: a, effect: NoSchedule}]", []string{"--provider-id=b", "--register-node=false"},
			// The report period equals the update period if only the latter is set.
			`{nodeStatusUpdateFrequency: 20s, nodeStatusReportFrequency: 20s, providerID: b, registerNode: false, registerWithTaints: [{key: a, effect: NoSchedule}]}`,
		},
		{"registerWithTaints: [{key: a, effect: NoSchedule}]", []string{"--register-with-taints=x=y:NoExecute,z:NoSchedule"}, `{registerWithTaints: [{key: x, value: "y", effect: NoExecute}, {key: z, effect: NoSchedule}]}`},
		{
			"staticPodURL: https://server/pods\nstaticPodURLHeader: {x-team: [a, b]}", []string{"--manifest-url=http://other", "--manifest-url-header=Authorization: Bearer x:y, b:again", "--manifest-url-header=b:beautiful"},
			`{staticPodURL: "http://other", staticPodURLHeader: {Authorization: ["Bearer x:y"], b: [again, beautiful]}}`,
		},
	} {
		got, err := withFile(t, c.file, c.args...)
		require.NoError(t, err, c.file)
		requireFields(t, got, c.want)
	}

	c, err := withFile(t, "readOnlyPort: 10255\nhealthzPort: 1\naddress: 127.0.0.1", "--read-only-port=7", "--healthz-port=0")
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:7", c.ReadOnlyAddress())
	require.Empty(t, c.HealthzAddress())
}

// Settings without a field in the file are in Flags.
func TestFlags(t *testing.T) {
	c, err := withFile(t, "", "--kubeconfig=/k", "--hostname-override= Node-1 ", "--node-ip=10.0.0.1,fd00::1", "--node-labels=room=3,example.com/a=b,c", "--cloud-provider=external",
		"--maximum-dead-containers=7", "--maximum-dead-containers-per-container=0", "--minimum-container-ttl-duration=5m")
	require.NoError(t, err)
	f := c.Flags
	require.Equal(t, []string{"/k", "node-1"}, []string{f.Kubeconfig, f.NodeName})
	require.Equal(t, []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}, f.NodeIP)
	require.Equal(t, map[string]string{"room": "3", "example.com/a": "b", "c": ""}, f.NodeLabels)
	require.True(t, f.ExternalCloud)
	require.Equal(t, []int{7, 0}, []int{f.MaxDeadContainers, f.MaxDeadPerContainer})
	require.Equal(t, 5*time.Minute, f.MinContainerTTL)
}

// Header values are masked.
func TestHeadersAreMasked(t *testing.T) {
	c, err := FromArgs([]string{"--manifest-url-header=b:secret,a:"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, http.Header{"a": {""}, "b": {"secret"}}, http.Header(c.Kubelet.StaticPodURLHeader))
	require.Equal(t, "a:<masked>,b:<masked>", c.Values()["manifest-url-header"])
}

// A gate is on if it is set, or by default.
func TestGates(t *testing.T) {
	c, err := withFile(t, "featureGates: {ComponentFlagz: false, LocalStorageCapacityIsolationFSQuotaMonitoring: true}")
	require.NoError(t, err)
	off := Default()
	for gate, want := range map[string][2]bool{ComponentFlagz: {false, true}, ComponentStatusz: {true, true}, FSQuotaMonitoring: {true, false}, "EventedPLEG": {false, false}} {
		require.Equal(t, want, [2]bool{c.Enabled(gate), off.Enabled(gate)}, gate)
	}
}

// A7, A8: a node without an API server serves its API only if authentication or authorization is
// configured.
func TestStandaloneAPI(t *testing.T) {
	for text, want := range map[string]struct {
		args    []string
		address string
	}{
		"":           {},
		"port: 1234": {},
		"authentication: {anonymous: {enabled: true}}\nauthorization: {mode: AlwaysAllow}": {nil, "0.0.0.0:10250"},
		"port: 1":             {[]string{"--client-ca-file=/ca", "--authorization-mode=AlwaysAllow", "--port=1234", "--address=127.0.0.1"}, "127.0.0.1:1234"},
		"enableServer: false": {[]string{"--kubeconfig=/k"}, ""},
		"port: 7":             {[]string{"--kubeconfig=/k"}, "0.0.0.0:7"},
	} {
		c, err := withFile(t, text, want.args...)
		require.NoError(t, err, text)
		require.Equal(t, want.address, c.APIAddress(), text)
	}
}
