package config

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A4 and A30: the error lists all invalid fields at once.
func TestRefusedByName(t *testing.T) {
	for text, want := range map[string][]string{
		"readOnlyPort: many":                      {`kubelet.yaml:3: readOnlyPort: "many" is not a port (0 to 65535)`},
		"syncFrequency: 1x\nmaxPods: \"9\"":       {`kubelet.yaml:3: syncFrequency: "1x" is not a positive duration`, `kubelet.yaml:4: maxPods: "9" is not a whole number of at least 0`},
		"address: [":                              {"yaml: line"},
		"runOnce: true\ncpuManagerPolicy: static": {"runOnce (--runonce): true is not supported: upstream", `cpuManagerPolicy (--cpu-manager-policy): "static" is not supported: this kubelet assigns no exclusive CPUs`},
		"hairpinMode: sideways\nmemoryReservationPolicy: TieredReservation":      {`hairpinMode (--hairpin-mode): "sideways" must be one of promiscuous-bridge, hairpin-veth, none`, "memoryReservationPolicy: \"TieredReservation\" is not supported"},
		"staticPodURLHeader: secret\nlogging: 7\nregisterWithTaints: [{key: 1}]": {"staticPodURLHeader: is not a map", "logging: 7 is not a map", "registerWithTaints[0].key: 1 is not a text"},
		"oomScoreAdj: 1001\nmaxOpenFiles: -1":                                    {"oomScoreAdj (--oom-score-adj): 1001 is not a whole number from -1000 to 1000", "maxOpenFiles (--max-open-files): -1 is not a whole number of at least 0"},
		"nodeLeaseDurationSeconds: -1\nnodeStatusMaxImages: -2":                  {"nodeLeaseDurationSeconds", "nodeStatusMaxImages"},
		"nodeStatusUpdateFrequency: -1s\nnodeStatusReportFrequency: -1s":         {"nodeStatusUpdateFrequency (--node-status-update-frequency): -1s is not a positive duration", "nodeStatusReportFrequency: -1s is not a positive duration"},
		"maxPods: -1\npodsPerCore: -1":                                           {"maxPods", "podsPerCore"},
		"kubeAPIQPS: -1":                                                         {"kubeAPIQPS"},
		"eventBurst: -1":                                                         {"eventBurst"},
		"contentType: text/plain":                                                {`contentType (--kube-api-content-type): "text/plain" must be one of application/vnd.kubernetes.protobuf, application/json`},
		"registerWithTaints: [{key: a, effect: Sometimes}]":                      {"registerWithTaints: effect"},
		"clusterDNS: [dns.example]\ncpuCFSQuotaPeriod: 2s":                       {`clusterDNS: "dns.example" is not an IP address`, "cpuCFSQuotaPeriod (--cpu-cfs-quota-period): 2s is not a duration from 1ms to 1s"},
		"logging: {format: xml, flushFrequency: -1s}\ntracing: {endpoint: 'http://x', samplingRatePerMillion: 1000001}": {
			`logging.format (--logging-format): "xml" must be one of text, json, slog`, "logging.flushFrequency (--log-flush-frequency): -1s is not a positive duration", `tracing.endpoint: scheme "http" must be one of dns, unix, unix-abstract`,
			"tracing.samplingRatePerMillion: 1000001 is not a whole number from 0 to 1000000",
		},
		"tracing: {endpoint: 'dn%2s://x'}": {"tracing.endpoint: "},

		// Images and logs.
		"imagePullCredentialsVerificationPolicy: Sometimes": {`imagePullCredentialsVerificationPolicy: "Sometimes" must be one of NeverVerifyPreloadedImages, `},
		"preloadedImagesVerificationAllowlist: [a]":         {"preloadedImagesVerificationAllowlist: needs"},
		"imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: [a, \"b:1\"]": {`preloadedImagesVerificationAllowlist[1]: "b:1": `},
		"memorySwap: {swapBehavior: Swap}":        {`memorySwap.swapBehavior: "Swap" must be one of NoSwap, LimitedSwap`},
		"imageGCHighThresholdPercent: 101":        {"imageGCHighThresholdPercent (--image-gc-high-threshold): 101 is not a whole number from 0 to 100"},
		"imageGCLowThresholdPercent: -1":          {"imageGCLowThresholdPercent (--image-gc-low-threshold): -1 is not a whole number from 0 to 100"},
		"imageGCHighThresholdPercent: 80":         {"imageGCLowThresholdPercent: 80 is not less than imageGCHighThresholdPercent: 80"},
		"imageMinimumGCAge: -1s":                  {"imageMinimumGCAge (--minimum-image-ttl-duration): -1s is not a duration of at least 0s"},
		"imageMaximumGCAge: -1s":                  {"imageMaximumGCAge: -1s is not a duration of at least 0s"},
		"imageMaximumGCAge: 2m":                   {"imageMaximumGCAge: 2m0s is not longer"},
		"imageMinimumGCAge: 1x":                   {`imageMinimumGCAge: "1x" is not a duration of at least 0s`},
		"containerLogMaxSize: large":              {`containerLogMaxSize: "large" is not a size`},
		"containerLogMaxSize: \"0\"":              {`containerLogMaxSize: "0" is not a size`},
		"containerLogMaxFiles: 1":                 {"containerLogMaxFiles (--container-log-max-files): 1 is not a whole number of at least 2"},
		"containerLogMaxWorkers: 0":               {"containerLogMaxWorkers: 0 is not a whole number of at least 1"},
		"containerLogMonitorInterval: 2s":         {"containerLogMonitorInterval: 2s is not a duration of at least 3s"},
		"userNamespaces: {idsPerPod: 1000}":       {"userNamespaces.idsPerPod: 1000 is not a multiple"},
		"userNamespaces: {idsPerPod: 4294967296}": {"userNamespaces.idsPerPod: 4294967296 is not"},
		"imageGCHighThresholdPercent: 200\ncontainerLogMaxFiles: 0\nrunOnce: true":    {"runOnce", "imageGCHighThresholdPercent"},
		"imageGCHighThresholdPercent: 50\nimageGCLowThresholdPercent: 60\naddress: x": {"address"},

		// Reservations, enforcement and eviction.
		"cgroupsPerQOS: false\nenforceNodeAllocatable: [pods]": {"needs cgroupsPerQOS: true"},
		"kubeReserved: {gpu: '1'}\nenforceNodeAllocatable: [pods, kube-reserved, bogus]\nsystemReservedCgroup: /s\nreservedSystemCPUs: 0-1": {
			"kubeReserved[gpu]", "kube-reserved needs kubeReservedCgroup", `"bogus" must be one of`, "reservedSystemCPUs: contradicts",
		},
		"evictionHard: {memory.available: '-1', disk: 1Gi}\nevictionSoft: {memory.available: 1Gi}\nevictionPressureTransitionPeriod: -1s": {
			"evictionHard[disk]: unknown signal", "evictionHard[memory.available]", "evictionSoft[memory.available]", "evictionPressureTransitionPeriod: -1s",
		},

		// Grace periods for a shutdown of the node.
		"shutdownGracePeriod: 500ms":                                                                         {"shutdownGracePeriod: 500ms is neither"},
		"shutdownGracePeriod: -1s":                                                                           {"shutdownGracePeriod: -1s is neither"},
		"shutdownGracePeriod: 100000h":                                                                       {"shutdownGracePeriod: 100000h"},
		"shutdownGracePeriodCriticalPods: 5s":                                                                {"shutdownGracePeriodCriticalPods: 5s is more than shutdownGracePeriod: 0s"},
		"shutdownGracePeriod: 4s\nshutdownGracePeriodCriticalPods: 5s":                                       {"shutdownGracePeriodCriticalPods: 5s is more"},
		"shutdownGracePeriod: 4s\nshutdownGracePeriodCriticalPods: 999ms":                                    {"shutdownGracePeriodCriticalPods: 999ms"},
		"shutdownGracePeriodByPodPriority: [{shutdownGracePeriodSeconds: -1}]":                               {"shutdownGracePeriodByPodPriority[0].shutdownGracePeriodSeconds: -1"},
		"shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 4000000000000000000}]": {"shutdownGracePeriodByPodPriority[0].shutdownGracePeriodSeconds"},
		"shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 400000}, {shutdownGracePeriodSeconds: 400000}]": {"shutdownGracePeriodByPodPriority[1].shutdownGracePeriodSeconds"},
		"shutdownGracePeriodByPodPriority: [{priority: 1}, {priority: 1}]":                                                            {"shutdownGracePeriodByPodPriority[1].priority: 1 is set twice"},
		"shutdownGracePeriod: 4s\nshutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 1}]":                   {"contradicts shutdownGracePeriod"},

		// A7, A8: there is no API server for authentication.
		"authentication: {webhook: {enabled: true}}\nauthorization: {mode: Webhook}": {"authorization.mode: Webhook needs the API server", "authentication.webhook.enabled: needs the API server"},
		"enableServer: true": {"authorization.mode: Webhook needs"},

		// Values without effect.
		"runOnce: false\nevictionHard: {}\ncgroupsPerQOS: false\nimageMaximumGCAge: 0s": nil,
		"systemReserved: {}":             nil,
		"memoryThrottlingFactor: 0.9":    nil,
		"enforceNodeAllocatable: [pods]": nil,
	} {
		requireRefused(t, want, text)
	}
	file := write(t, map[string]string{"pod": "kind: Pod\napiVersion: v1"}) + "/pod"
	_, err := FromArgs([]string{"--config=" + file}, io.Discard)
	require.EqualError(t, err, "--config: "+file+`: apiVersion "v1", kind "Pod": want kubelet.config.k8s.io/v1beta1, KubeletConfiguration`)
}

// requireRefused checks that a file and flags are refused with all of these texts, or accepted if
// want is nil.
func requireRefused(t *testing.T, want []string, text string, args ...string) {
	t.Helper()
	_, err := withFile(t, text, args...)
	if want == nil {
		require.NoError(t, err, text)
	}
	for _, name := range want {
		require.ErrorContains(t, err, name, text)
	}
}

// A30: the error lists all invalid flags at once, each in one line.
func TestRefusedFlags(t *testing.T) {
	for arg, want := range map[string]string{
		"--hostname-override=a_b":                          "hostname-override",
		"--hostname-override= ":                            "hostname-override",
		"--hostname-override=" + strings.Repeat("a.", 127): "hostname-override",
		"--read-only-port=70000":                           "readOnlyPort",
		"--healthz-port=-1":                                "healthzPort",
		"--config-dir=/does/not/exist":                     "/does/not/exist",
		"--nonsense":                                       "--nonsense: unknown flag (--help lists all flags)",
		"--max-pods":                                       "--max-pods: needs a value",
		"--max-podz=1":                                     "--max-podz: unknown flag; did you mean --max-pods?",
		"--read-only-port=abc":                             `--read-only-port: "abc" is not a port (0 to 65535)`,
		"--port=":                                          `--port: "" is not a port (1 to 65535)`,
		"--maximum-dead-containers=all":                    `--maximum-dead-containers: "all" is not a whole number`,
		"--minimum-container-ttl-duration=4":               `--minimum-container-ttl-duration: "4" is not a duration such as 10s or 5m`,
		"--exit-on-lock-contention=perhaps":                `--exit-on-lock-contention: "perhaps" is not true or false`,
		"--container-runtime=remote":                       "--container-runtime: removed in Kubernetes v1.27",
		"--pod-infra-container-image=pause":                "--pod-infra-container-image: removed in Kubernetes v1.35",
		"--logtostderr":                                    "--logtostderr: removed in Kubernetes v1.26",
		"--experimental-allocatable-ignore-eviction":       "--experimental-allocatable-ignore-eviction: true is not supported: allocatable",
		"--container-runtime-endpoint=tcp://x":             `containerRuntimeEndpoint: endpoint "tcp://x"`,
		"--container-runtime-endpoint=Embedded":            `(or "embedded")`,
		"manifests":                                        "manifests",
		"--node-ip=127.0.0.1":                              "--node-ip: 127.0.0.1: other machines cannot reach a loopback",
		"--node-labels=kubernetes.io/x":                    "--node-labels",
		"--register-with-taints=a":                         "--register-with-taints",
		"--register-node=perhaps":                          "perhaps",
		"--cloud-provider=aws":                             "--cloud-provider",
		"--minimum-container-ttl-duration=-1s":             "--minimum-container-ttl-duration: -1s is negative",
		"--manifest-url=ftp://u:secret@h":                  `"ftp://u:xxxxx@h" is no http or https address`,
		"--manifest-url=http://u:secret@a b":               "staticPodURL (--manifest-url): is not a URL",
		"--manifest-url-header=secret":                     "manifest-url-header: each pair must be name:v",
		"--manifest-url-header=:x":                         "manifest-url-header: each pair must be name:v",
		"--streaming-connection-idle-timeout=4":            "streaming-connection-idle-timeout",
		"--image-credential-provider-config=/x":            "--image-credential-provider-config needs --image-credential-provider-bin-dir",
		"--image-credential-provider-bin-dir=/x":           "--image-credential-provider-bin-dir needs --image-credential-provider-config",
	} {
		_, err := FromArgs([]string{arg}, io.Discard)
		require.ErrorContains(t, err, want, arg)
		require.NotContains(t, err.Error(), "\n", arg)
	}
	_, err := FromArgs([]string{"--config=/does/not/exist"}, io.Discard)
	require.ErrorContains(t, err, "/does/not/exist")
	_, err = FromArgs([]string{"--help"}, io.Discard)
	require.ErrorIs(t, err, flag.ErrHelp)
	for name, c := range map[string]struct {
		text string
		args []string
		want []string
	}{
		"several values": {
			args: []string{
				"--network-plugin=cni", "--port=x", "--anonymous-auth=perhaps", "--event-qps=1x", "--feature-gates=EventedPLEG=true,X", "--node-ip=127.0.0.1",
				"--sync-frequency=4", "--manifest-url-header=a",
			},
			want: []string{
				"--network-plugin: removed in Kubernetes v1.24", `--port: "x" is not a port`, `--anonymous-auth: "perhaps" is not true or false`, `--event-qps: "1x" is not a whole number`,
				`--feature-gates: "X" is not key=value`, "--node-ip: 127", `--sync-frequency: "4" is not a positive duration`, "--manifest-url-header: each pair",
			},
		},
		"before an unknown flag": {args: []string{"--network-plugin=cni", "--nonsense"}, want: []string{"nonsense", "--network-plugin"}},
		"no effect": {args: []string{
			"--storage-driver-db=", "--runtime-cgroups=/system.slice/containerd.service", "--vmodule=", "--storage-driver-secure=false", "--max-pods=110", "--cgroups-per-qos", "--eviction-hard=", "--runonce=false",
		}},
		"defaults spelt out":               {text: "port: 10250\ncgroupDriver: cgroupfs\nfailSwapOn: true\nnodeStatusReportFrequency: 5m\nauthorization: {mode: Webhook}", args: []string{"--kubeconfig=/k"}},
		"objects of folder and API server": {args: []string{"--kubeconfig=/k", "--objects-dir=/o"}, want: []string{"--objects-dir: objects come from the API server of --kubeconfig"}},
		"certificates without an API server": {
			"serverTLSBootstrap: true\nrotateCertificates: true", []string{"--anonymous-auth", "--authorization-mode=AlwaysAllow", "--bootstrap-kubeconfig=/b"},
			[]string{"serverTLSBootstrap", "rotateCertificates", "--bootstrap-kubeconfig"},
		},
		"kubelet API": {
			"port: 70000\ntlsCertFile: a.crt\ntlsMinVersion: VersionTLS09\ntlsCipherSuites: [ROT13]\nauthorization: {mode: Maybe, webhook: {cacheUnauthorizedTTL: -1s}}", []string{"--kubeconfig=/k"},
			[]string{"port (--port): 70000 is not a port (1 to 65535)", "tlsCertFile, tlsPrivateKeyFile", "tlsMinVersion", "tlsCipherSuites", `authorization.mode (--authorization-mode): "Maybe" must be one of Webhook, AlwaysAllow`, "-1s is not a duration of at least 0s"},
		},
	} {
		t.Run(name, func(t *testing.T) { requireRefused(t, c.want, c.text, c.args...) })
	}
}

func TestCredentialProviders(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "providers.yaml")
	read := func(file, more string, args ...string) (*Config, error) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "providers.yaml"), []byte(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- {name: plugin, matchImages: ["*.example.com"], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1`+more+`}
`), 0o600))
		return FromArgs(append(args, "--image-credential-provider-config", file, "--image-credential-provider-bin-dir", dir), io.Discard)
	}
	c, err := read(file, "")
	require.NoError(t, err)
	require.Equal(t, []string{file, dir}, []string{c.Flags.CredentialProviderConfig, c.Flags.CredentialProviderBinDir})
	_, err = read(file+"x", "")
	require.ErrorContains(t, err, "no such file")
	const token = ", tokenAttributes: {serviceAccountTokenAudience: a, cacheType: Token, requireServiceAccount: true}"
	_, err = read(file, token)
	require.ErrorContains(t, err, `provider "plugin": tokenAttributes: service account tokens need --kubeconfig`)
	_, err = read(file, token, "--kubeconfig=/k")
	require.NoError(t, err)
}
