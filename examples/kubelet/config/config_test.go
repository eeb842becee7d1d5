package config

import (
	"encoding/json"
	"flag"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

func TestDefaults(t *testing.T) {
	c, err := FromArgs([]string{"--hostname-override=Node-1", "--kubeconfig=/k"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, &Config{
		Kubelet: kubeletv1beta1.KubeletConfiguration{
			PodLogsDir:                             "/var/log/pods",
			ContainerRuntimeEndpoint:               "unix:///run/containerd/containerd.sock",
			ImageServiceEndpoint:                   "unix:///run/containerd/containerd.sock",
			RuntimeRequestTimeout:                  metav1.Duration{Duration: 2 * time.Minute},
			Address:                                "0.0.0.0",
			EnableServer:                           new(true),
			Port:                                   10250,
			Authentication:                         kubeletv1beta1.KubeletAuthentication{Anonymous: kubeletv1beta1.KubeletAnonymousAuthentication{Enabled: new(false)}, Webhook: kubeletv1beta1.KubeletWebhookAuthentication{Enabled: new(true), CacheTTL: metav1.Duration{Duration: 2 * time.Minute}}},
			Authorization:                          kubeletv1beta1.KubeletAuthorization{Mode: kubeletv1beta1.KubeletAuthorizationModeWebhook, Webhook: kubeletv1beta1.KubeletWebhookAuthorization{CacheAuthorizedTTL: metav1.Duration{Duration: 5 * time.Minute}, CacheUnauthorizedTTL: metav1.Duration{Duration: 30 * time.Second}}},
			StreamingConnectionIdleTimeout:         metav1.Duration{Duration: 4 * time.Hour},
			EnableDebuggingHandlers:                new(true),
			EnableProfilingHandler:                 new(true),
			EnableDebugFlagsHandler:                new(true),
			EnableSystemLogHandler:                 new(true),
			EnableSystemLogQuery:                   new(false),
			MakeIPTablesUtilChains:                 new(true),
			Logging:                                logsapi.LoggingConfiguration{Format: "text", FlushFrequency: logsapi.TimeOrMetaDuration{Duration: metav1.Duration{Duration: 5 * time.Second}, SerializeAsString: true}},
			HealthzBindAddress:                     "127.0.0.1",
			HealthzPort:                            new(int32(10248)),
			SyncFrequency:                          metav1.Duration{Duration: time.Minute},
			FileCheckFrequency:                     metav1.Duration{Duration: 20 * time.Second},
			NodeStatusUpdateFrequency:              metav1.Duration{Duration: 10 * time.Second},
			NodeStatusReportFrequency:              metav1.Duration{Duration: 5 * time.Minute},
			NodeLeaseDurationSeconds:               40,
			OOMScoreAdj:                            new(int32(-999)),
			EvictionPressureTransitionPeriod:       metav1.Duration{Duration: 5 * time.Minute},
			MergeDefaultEvictionSettings:           new(false),
			MaxPods:                                110,
			LocalStorageCapacityIsolation:          new(true),
			MaxOpenFiles:                           1_000_000,
			NodeStatusMaxImages:                    new(int32(50)),
			RegisterNode:                           new(true),
			KubeAPIQPS:                             new(int32(50)),
			KubeAPIBurst:                           100,
			ContentType:                            "application/vnd.kubernetes.protobuf",
			EventRecordQPS:                         new(int32(50)),
			EventBurst:                             100,
			HTTPCheckFrequency:                     metav1.Duration{Duration: 20 * time.Second},
			CrashLoopBackOff:                       kubeletv1beta1.CrashLoopBackOffConfig{MaxContainerRestartPeriod: &metav1.Duration{Duration: 5 * time.Minute}},
			SerializeImagePulls:                    new(true),
			RegistryPullQPS:                        new(int32(5)),
			RegistryBurst:                          10,
			ResolverConfig:                         new("/etc/resolv.conf"),
			CgroupsPerQOS:                          new(true),
			CgroupDriver:                           "cgroupfs",
			FailCgroupV1:                           new(true),
			PodPidsLimit:                           new(int64(-1)),
			CPUCFSQuota:                            new(true),
			CPUCFSQuotaPeriod:                      &metav1.Duration{Duration: 100 * time.Millisecond},
			SeccompDefault:                         new(false),
			FailSwapOn:                             new(true),
			EnforceNodeAllocatable:                 []string{"pods"},
			ImagePullCredentialsVerificationPolicy: "NeverVerifyPreloadedImages",
			ImageGCHighThresholdPercent:            new(int32(85)),
			ImageGCLowThresholdPercent:             new(int32(80)),
			ImageMinimumGCAge:                      metav1.Duration{Duration: 2 * time.Minute},
			ContainerLogMaxSize:                    "10Mi",
			ContainerLogMaxFiles:                   new(int32(5)),
			ContainerLogMaxWorkers:                 new(int32(1)),
			ContainerLogMonitorInterval:            &metav1.Duration{Duration: 10 * time.Second},
			MemorySwap:                             kubeletv1beta1.MemorySwapConfiguration{SwapBehavior: NoSwap},
			UserNamespaces:                         &kubeletv1beta1.UserNamespaces{IDsPerPod: new(int64(65536))},
		},
		Flags: Flags{
			NodeName:            "node-1",
			RootDir:             "/var/lib/kubelet",
			CertDir:             "/var/lib/kubelet/pki",
			Kubeconfig:          "/k",
			ContainerLogsDir:    "/var/log/containers",
			MaxDeadContainers:   -1,
			MaxDeadPerContainer: 1,
		},
	}, c)
	require.Equal(t, "127.0.0.1:10248", c.HealthzAddress())
	require.Equal(t, "0.0.0.0:10250", c.APIAddress())
	require.Empty(t, c.ReadOnlyAddress())

	again := *c.Kubelet.DeepCopy()
	SetDefaults(&again)
	require.Equal(t, c.Kubelet, again, "what is set already stays")
	require.Equal(t, c.Kubelet, Default().Kubelet)
}

// What the file says of containers is taken as it stands, also where it says no.
func TestWhatContainersAreGiven(t *testing.T) {
	read := func(text string) (*Config, error) {
		path := filepath.Join(t.TempDir(), "kubelet.yaml")
		require.NoError(t, os.WriteFile(path, []byte(head+text), 0o600))
		return FromArgs([]string{"--config", path}, io.Discard)
	}
	c, err := read(`
clusterDNS: [10.0.0.10, "fd00::10"]
clusterDomain: cluster.local
resolvConf: ""
cpuCFSQuota: false
cpuCFSQuotaPeriod: 5ms
seccompDefault: true
singleProcessOOMKill: true
`)
	require.NoError(t, err)
	require.Equal(t, []string{"10.0.0.10", "fd00::10"}, c.Kubelet.ClusterDNS)
	require.Equal(t, "cluster.local", c.Kubelet.ClusterDomain)
	require.Empty(t, *c.Kubelet.ResolverConfig)
	require.False(t, *c.Kubelet.CPUCFSQuota)
	require.Equal(t, 5*time.Millisecond, c.Kubelet.CPUCFSQuotaPeriod.Duration)
	require.True(t, *c.Kubelet.SeccompDefault && *c.Kubelet.SingleProcessOOMKill)

	c, err = read("resolvConf: resolv.conf")
	require.NoError(t, err)
	require.True(t, filepath.IsAbs(*c.Kubelet.ResolverConfig), "relative to the file")
	_, err = read("clusterDNS: [dns.example]\ncpuCFSQuotaPeriod: 2s")
	require.ErrorContains(t, err, `clusterDNS: "dns.example" is not an IP address`)
	require.ErrorContains(t, err, "cpuCFSQuotaPeriod: 2s is not within 1ms and 1s")
}

func TestEmbeddedKeepsToTheUsersFolders(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/home/u/state")
	c, err := FromArgs([]string{"--container-runtime-endpoint=embedded"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "/home/u/state/podwright", c.Flags.RootDir)
	require.Equal(t, "/home/u/state/podwright/logs", c.Kubelet.PodLogsDir)
	require.Empty(t, c.Flags.ContainerLogsDir)
}

// A1: a flag wins over the file.
func TestFlagsWinOverTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubelet.yaml")
	require.NoError(t, os.WriteFile(path, []byte(head+`
staticPodPath: manifests
readOnlyPort: 10255
healthzPort: 1
address: 127.0.0.1
serializeImagePulls: false
maxParallelImagePulls: 4
registryPullQPS: 0
crashLoopBackOff: {maxContainerRestartPeriod: 5s}
`), 0o600))
	c, err := FromArgs([]string{"--config", path, "--read-only-port=7", "--healthz-port=0"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:7", c.ReadOnlyAddress())
	require.Empty(t, c.HealthzAddress())
	require.Equal(t, filepath.Join(filepath.Dir(path), "manifests"), c.Kubelet.StaticPodPath, "relative to the file")
	require.EqualValues(t, 4, *c.Kubelet.MaxParallelImagePulls)
	require.False(t, *c.Kubelet.SerializeImagePulls)
	require.Zero(t, *c.Kubelet.RegistryPullQPS)
	require.Equal(t, 5*time.Second, c.Kubelet.CrashLoopBackOff.MaxContainerRestartPeriod.Duration)
}

// Without a home there is one thing to say, and what helps.
func TestEmbeddedWithoutAHome(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	_, err := FromArgs([]string{"--container-runtime-endpoint=embedded"}, io.Discard)
	require.EqualError(t, err, "--root-dir is not set, and there is no folder for user state: $HOME is not defined")
	c, err := FromArgs([]string{"--container-runtime-endpoint=embedded", "--root-dir=/r"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "/r/logs", c.Kubelet.PodLogsDir)
}

// A4 and A30: everything that is wrong is named, all at once.
func TestRefusedByName(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want []string
	}{
		"unknown field":       {"podManifestPat: /x", []string{"podManifestPat"}},
		"doubled field":       {"readOnlyPort: 1\nreadOnlyPort: 2", []string{"readOnlyPort"}},
		"wrong type":          {"readOnlyPort: many", []string{"readOnlyPort"}},
		"not a duration":      {"syncFrequency: 1x\nbogus: 1", []string{"syncFrequency: time: unknown unit", "bogus: json: unknown field"}},
		"not YAML":            {"address: [", []string{"yaml: line"}},
		"two missing things":  {"runOnce: true\niptablesDropBit: 7", []string{"runOnce: true", "iptablesDropBit: 7"}},
		"nested":              {"logging: {options: {json: {splitStream: true}}}", []string{"logging.options: {\"json\":{\"splitStream\":true}} asks for behaviour that this kubelet does not have: the log is one stream"}},
		"free-form map":       {"qosReserved: {memory: 50%}", []string{"qosReserved"}},
		"zero values":         {"runOnce: false\nevictionHard: {}\ncgroupsPerQOS: false\nimageMaximumGCAge: 0s", nil},
		"defaults spelt out":  {"port: 10250\ncgroupDriver: cgroupfs\nfailSwapOn: true\nnodeStatusReportFrequency: 5m\nauthorization: {mode: Webhook}", nil},
		"free-form map zero":  {"systemReserved: {}", nil},
		"default of a float":  {"memoryThrottlingFactor: 0.9", nil},
		"enforced by default": {"enforceNodeAllocatable: [pods]", nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(head + tc.file))
			if tc.want == nil {
				require.NoError(t, err)
			}
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
	_, err := Parse([]byte("kind: Pod\napiVersion: v1"))
	require.ErrorContains(t, err, "KubeletConfiguration")
}

func TestBadValues(t *testing.T) {
	for arg, want := range map[string]string{
		"--hostname-override=a_b":  "hostname-override",
		"--read-only-port=70000":   "readOnlyPort",
		"--healthz-port=-1":        "healthzPort",
		"--config=/does/not/exist": "/does/not/exist",
		"--nonsense":               "nonsense",

		"--container-runtime-endpoint=tcp://x":  `containerRuntimeEndpoint: endpoint "tcp://x"`,
		"--container-runtime-endpoint=Embedded": `(or "embedded")`,
		"manifests":                             "manifests",
	} {
		_, err := FromArgs([]string{arg}, io.Discard)
		require.ErrorContains(t, err, want, arg)
	}
	_, err := FromArgs([]string{"--help"}, io.Discard)
	require.ErrorIs(t, err, flag.ErrHelp)
}

// Every path in the tables is a field of the configuration, and every default
// is written as that field's type.
func TestTablesNameRealFields(t *testing.T) {
	for path := range honoured {
		require.True(t, fieldExists(reflect.TypeFor[kubeletv1beta1.KubeletConfiguration](), strings.Split(path, ".")), path)
	}
	for path, value := range defaults {
		require.True(t, fieldExists(reflect.TypeFor[kubeletv1beta1.KubeletConfiguration](), strings.Split(path, ".")), path)
		nested := value
		parts := strings.Split(path, ".")
		for i := len(parts) - 1; i >= 0; i-- {
			nested = `{"` + parts[i] + `":` + nested + `}`
		}
		require.NoError(t, json.Unmarshal([]byte(nested), &kubeletv1beta1.KubeletConfiguration{}), path)
	}
}

func fieldExists(t reflect.Type, path []string) bool {
	if len(path) == 0 {
		return true
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == path[0] && fieldExists(f.Type, path[1:]) {
			return true
		}
		if (strings.Contains(options, "inline") || f.Anonymous) && fieldExists(f.Type, path) {
			return true
		}
	}
	return false
}

// The folder of objects may be named from where the kubelet is started.
func TestObjectsDir(t *testing.T) {
	c, err := FromArgs([]string{"--objects-dir=objects"}, io.Discard)
	require.NoError(t, err)
	here, err := os.Getwd()
	require.NoError(t, err)
	require.Equal(t, filepath.Join(here, "objects"), c.Flags.ObjectsDir)
}

// What concerns the API server, on the command line and in the file.
func TestNodeOfACluster(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kubelet.yaml")
	require.NoError(t, os.WriteFile(path, []byte(head+"nodeStatusUpdateFrequency: 20s\nproviderID: a\nregisterWithTaints: [{key: a, effect: NoSchedule}]\n"), 0o600))
	c, err := FromArgs([]string{"--config", path, "--kubeconfig=/k", "--node-ip=10.0.0.1,fd00::1", "--node-labels=room=3,example.com/a=b",
		"--provider-id=b", "--cloud-provider=external", "--register-node=false"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "/k", c.Flags.Kubeconfig)
	require.Equal(t, []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}, c.Flags.NodeIP)
	require.Equal(t, map[string]string{"room": "3", "example.com/a": "b"}, c.Flags.NodeLabels)
	require.True(t, c.Flags.ExternalCloud)
	require.Equal(t, "b", c.Kubelet.ProviderID, "a flag wins over the file")
	require.False(t, *c.Kubelet.RegisterNode)
	require.Len(t, c.Kubelet.RegisterWithTaints, 1)
	require.Equal(t, 20*time.Second, c.Kubelet.NodeStatusUpdateFrequency.Duration)
	require.Equal(t, 20*time.Second, c.Kubelet.NodeStatusReportFrequency.Duration, "as often as it is made, if only that is said")

	c, err = FromArgs([]string{"--config", path, "--register-with-taints=x=y:NoExecute,z:NoSchedule"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, []v1.Taint{{Key: "x", Value: "y", Effect: v1.TaintEffectNoExecute}, {Key: "z", Effect: v1.TaintEffectNoSchedule}}, c.Kubelet.RegisterWithTaints)

	for arg, want := range map[string]string{
		"--node-ip=127.0.0.1":           "--node-ip",
		"--node-labels=kubernetes.io/x": "--node-labels",
		"--register-with-taints=a":      "--register-with-taints",
		"--cloud-provider=aws":          "--cloud-provider",
	} {
		_, err := FromArgs([]string{arg}, io.Discard)
		require.ErrorContains(t, err, want, arg)
	}
	_, err = FromArgs([]string{"--kubeconfig=/k", "--objects-dir=/o"}, io.Discard)
	require.ErrorContains(t, err, "--objects-dir: objects come from the API server of --kubeconfig")
	for text, want := range map[string]string{
		"nodeLeaseDurationSeconds: -1":                      "nodeLeaseDurationSeconds",
		"nodeStatusUpdateFrequency: -1s":                    "nodeStatusUpdateFrequency",
		"nodeStatusMaxImages: -2":                           "nodeStatusMaxImages",
		"kubeAPIQPS: -1":                                    "kubeAPIQPS",
		"eventBurst: -1":                                    "eventBurst",
		"contentType: text/plain":                           "contentType",
		"registerWithTaints: [{key: a, effect: Sometimes}]": "registerWithTaints",
	} {
		require.NoError(t, os.WriteFile(path, []byte(head+text), 0o600))
		_, err := FromArgs([]string{"--config", path}, io.Discard)
		require.ErrorContains(t, err, want)
	}
}
