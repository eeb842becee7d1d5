package config

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// withFile reads a command line and a configuration file.
func withFile(t *testing.T, text string, args ...string) (*Config, error) {
	t.Helper()
	path := filepath.Join(write(t, map[string]string{"kubelet.yaml": head + text}), "kubelet.yaml")
	return FromArgs(append([]string{"--hostname-override=n", "--config", path}, args...), io.Discard)
}

// write makes the files of a folder.
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

func TestEmbeddedKeepsToTheUsersFolders(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/home/u/state")
	c, err := FromArgs([]string{"--container-runtime-endpoint=embedded"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "/home/u/state/podwright", c.Flags.RootDir)
	require.Equal(t, "/home/u/state/podwright/logs", c.Kubelet.PodLogsDir)
	require.Empty(t, c.Flags.ContainerLogsDir)
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
