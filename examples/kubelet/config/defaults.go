package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright/cri/images/credentials"
	"github.com/podwright/podwright/examples/kubelet/allocatable"
)

// idUnit is a unit: the number of user IDs of a pod is a multiple of it.
const idUnit = 65536

// The values of memorySwap.swapBehavior.
const NoSwap, LimitedSwap = "NoSwap", "LimitedSwap"

// SetDefaults sets the v1beta1 defaults of all fields. Fields that are already set stay.
func SetDefaults(k *kubeletv1beta1.KubeletConfiguration) {
	set(&k.ContainerRuntimeEndpoint, "unix:///run/containerd/containerd.sock")
	set(&k.ImageServiceEndpoint, k.ContainerRuntimeEndpoint)
	set(&k.RuntimeRequestTimeout.Duration, 2*time.Minute)
	set(&k.PodLogsDir, "/var/log/pods")
	set(&k.SyncFrequency.Duration, time.Minute)
	set(&k.FileCheckFrequency.Duration, 20*time.Second)
	set(&k.HTTPCheckFrequency.Duration, 20*time.Second)
	set(&k.Address, "0.0.0.0")
	set(&k.HealthzBindAddress, "127.0.0.1")
	setNil(&k.HealthzPort, 10248)
	setNil(&k.CrashLoopBackOff.MaxContainerRestartPeriod, metav1.Duration{Duration: 5 * time.Minute})

	setNil(&k.SerializeImagePulls, k.MaxParallelImagePulls == nil || *k.MaxParallelImagePulls < 2)
	setNil(&k.RegistryPullQPS, 5)
	set(&k.RegistryBurst, 10)
	if gateValues(k)[verifyPulledImages] {
		set(&k.ImagePullCredentialsVerificationPolicy, kubeletv1beta1.NeverVerifyPreloadedImages)
	}
	set(&k.ImagePullCredentialsVerificationPolicy, kubeletv1beta1.NeverVerify)
	setNil(&k.ImageGCHighThresholdPercent, 85)
	setNil(&k.ImageGCLowThresholdPercent, 80)
	set(&k.ImageMinimumGCAge.Duration, 2*time.Minute)

	set(&k.ContainerLogMaxSize, "10Mi")
	setNil(&k.ContainerLogMaxFiles, 5)
	setNil(&k.ContainerLogMaxWorkers, 1)
	setNil(&k.ContainerLogMonitorInterval, metav1.Duration{Duration: 10 * time.Second})

	setNode(k)
	setServer(k)
	setProcess(k)
	setManagers(k)

	setNil(&k.ResolverConfig, "/etc/resolv.conf")
	setNil(&k.CgroupsPerQOS, true)
	set(&k.CgroupDriver, "cgroupfs")
	setNil(&k.FailCgroupV1, true)
	if k.PodPidsLimit == nil || *k.PodPidsLimit < 0 {
		k.PodPidsLimit = new(int64(-1))
	}
	setNil(&k.CPUCFSQuota, true)
	setNil(&k.CPUCFSQuotaPeriod, metav1.Duration{Duration: 100 * time.Millisecond})
	setNil(&k.SeccompDefault, false)
	setNil(&k.FailSwapOn, true)
	if k.EnforceNodeAllocatable == nil && *k.CgroupsPerQOS {
		k.EnforceNodeAllocatable = []string{allocatable.Pods}
	}
	set(&k.EvictionPressureTransitionPeriod.Duration, 5*time.Minute)
	set(&k.VolumeStatsAggPeriod.Duration, time.Minute)
	setNil(&k.MergeDefaultEvictionSettings, false)
	setNil(&k.LocalStorageCapacityIsolation, true)
	set(&k.MemorySwap.SwapBehavior, NoSwap)
	setNil(&k.UserNamespaces, kubeletv1beta1.UserNamespaces{})
	setNil(&k.UserNamespaces.IDsPerPod, idUnit)
}

// setNode sets the defaults for the API server. If only nodeStatusUpdateFrequency is set,
// nodeStatusReportFrequency equals it.
func setNode(k *kubeletv1beta1.KubeletConfiguration) {
	report := k.NodeStatusUpdateFrequency.Duration
	if report == 0 {
		report = 5 * time.Minute
	}
	set(&k.NodeStatusReportFrequency.Duration, report)
	set(&k.NodeStatusUpdateFrequency.Duration, 10*time.Second)
	set(&k.NodeLeaseDurationSeconds, 40)
	setNil(&k.NodeStatusMaxImages, 50)
	set(&k.MaxPods, 110)
	setNil(&k.RegisterNode, true)
	setNil(&k.KubeAPIQPS, 50)
	set(&k.KubeAPIBurst, 100)
	set(&k.ContentType, "application/vnd.kubernetes.protobuf")
	setNil(&k.EventRecordQPS, 50)
	set(&k.EventBurst, 100)
}

// setManagers sets the defaults of fields without effect here.
func setManagers(k *kubeletv1beta1.KubeletConfiguration) {
	set(&k.CPUManagerPolicy, "none")
	set(&k.CPUManagerReconcilePeriod.Duration, 10*time.Second)
	set(&k.MemoryManagerPolicy, "None")
	set(&k.TopologyManagerPolicy, "none")
	set(&k.TopologyManagerScope, "container")
	setNil(&k.MemoryThrottlingFactor, 0.9)
	set(&k.MemoryReservationPolicy, kubeletv1beta1.NoneMemoryReservationPolicy)
	set(&k.HairpinMode, kubeletv1beta1.PromiscuousBridge)
	setNil(&k.EnableControllerAttachDetach, true)
	setNil(&k.IPTablesMasqueradeBit, 14)
	setNil(&k.IPTablesDropBit, 15)
	set(&k.ConfigMapAndSecretChangeDetectionStrategy, kubeletv1beta1.WatchChangeDetectionStrategy)
	set(&k.VolumePluginDir, "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/")
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func setNil[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func (c *Config) setNodeName() error {
	name := c.Flags.NodeName
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("node name: %w (--hostname-override sets one)", err)
		}
		name = host
	}
	c.Flags.NodeName = strings.ToLower(strings.TrimSpace(name))
	if problems := validation.IsDNS1123Subdomain(c.Flags.NodeName); len(problems) > 0 {
		return fmt.Errorf("node name %q (--hostname-override): %s", c.Flags.NodeName, strings.Join(problems, "; "))
	}
	return nil
}

// setFolders sets the default folders: the system's for a CRI runtime, the user's for the embedded
// one, which does not need root.
func (c *Config) setFolders() error {
	k, f := &c.Kubelet, &c.Flags
	embedded := k.ContainerRuntimeEndpoint == Embedded
	switch {
	case f.RootDir != "":
	case embedded:
		state, err := userStateDir()
		if err != nil {
			return fmt.Errorf("--root-dir is not set, and there is no folder for user state: %w", err)
		}
		f.RootDir = filepath.Join(state, "podwright")
	default:
		f.RootDir = "/var/lib/kubelet"
	}
	set(&f.CertDir, filepath.Join(f.RootDir, "pki"))
	if embedded {
		set(&k.PodLogsDir, filepath.Join(f.RootDir, "logs"))
	} else {
		f.ContainerLogsDir = "/var/log/containers"
	}
	return nil
}

func userStateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".local", "state"), nil
}

// setCredentialProviders checks the configuration of plugins for registry credentials.
func (c *Config) setCredentialProviders() error {
	f := &c.Flags
	switch {
	case f.CredentialProviderConfig == "" && f.CredentialProviderBinDir == "":
		return nil
	case f.CredentialProviderConfig == "":
		return errors.New("--image-credential-provider-bin-dir needs --image-credential-provider-config")
	case f.CredentialProviderBinDir == "":
		return errors.New("--image-credential-provider-config needs --image-credential-provider-bin-dir")
	}
	providers, err := credentials.LoadPluginConfig(f.CredentialProviderConfig)
	if err != nil {
		return fmt.Errorf("--image-credential-provider-config: %w", err)
	}
	for i := range providers {
		if providers[i].TokenAttributes != nil && f.Kubeconfig == "" {
			return fmt.Errorf("--image-credential-provider-config: provider %q: tokenAttributes: service account tokens need --kubeconfig", providers[i].Name)
		}
	}
	return nil
}
