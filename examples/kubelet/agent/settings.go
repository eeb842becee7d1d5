package agent

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright/cri/images/gc"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// unlimited converts 0, which means no limit in the configuration file, to the libraries' -1.
func unlimited(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// parallelPulls returns the limit of parallel image pulls, negative for no limit.
func parallelPulls(k *kubeletv1beta1.KubeletConfiguration) int {
	switch {
	case *k.SerializeImagePulls:
		return 1
	case k.MaxParallelImagePulls == nil:
		return -1
	default:
		return unlimited(int(*k.MaxParallelImagePulls))
	}
}

// imageGC returns the policy of image garbage collection. Images of the embedded runtime use no
// space, so they are never removed.
func imageGC(k *kubeletv1beta1.KubeletConfiguration) gc.Policy {
	if k.ContainerRuntimeEndpoint == config.Embedded {
		return gc.Policy{HighPercent: 100}
	}
	return gc.Policy{
		HighPercent: int(*k.ImageGCHighThresholdPercent),
		LowPercent:  int(*k.ImageGCLowThresholdPercent),
		MinAge:      k.ImageMinimumGCAge.Duration,
		MaxAge:      k.ImageMaximumGCAge.Duration,
	}
}

// deadContainers converts the flags, where 0 means none, to the library's policy.
func deadContainers(f *config.Flags) garbage.Policy {
	return garbage.Policy{
		MinAge:          f.MinContainerTTL,
		MaxPerContainer: f.MaxDeadPerContainer,
		KeepNone:        f.MaxDeadPerContainer == 0 || f.MaxDeadContainers == 0,
		MaxTotal:        f.MaxDeadContainers,
	}
}

func dns(k *kubeletv1beta1.KubeletConfiguration) pods.DNS {
	return pods.DNS{
		ClusterServers: k.ClusterDNS,
		ClusterDomain:  k.ClusterDomain,
		HostResolver:   *k.ResolverConfig,
		NoHostResolver: *k.ResolverConfig == "",
	}
}

// shutdownPeriods returns the grace periods of pods by priority for a shutdown of the machine.
func shutdownPeriods(k *kubeletv1beta1.KubeletConfiguration) []shutdown.Period {
	if len(k.ShutdownGracePeriodByPodPriority) == 0 {
		return shutdown.Periods(k.ShutdownGracePeriod.Duration, k.ShutdownGracePeriodCriticalPods.Duration)
	}
	var out []shutdown.Period
	for _, p := range k.ShutdownGracePeriodByPodPriority {
		out = append(out, shutdown.Period{Priority: p.Priority, Grace: time.Duration(p.ShutdownGracePeriodSeconds) * time.Second})
	}
	return out
}

// logSize returns the maximum size of a log in bytes, negative for no rotation.
func logSize(k *kubeletv1beta1.KubeletConfiguration) (int64, error) {
	size, err := resource.ParseQuantity(k.ContainerLogMaxSize)
	if err != nil {
		return 0, fmt.Errorf("containerLogMaxSize: %q: %w", k.ContainerLogMaxSize, err)
	}
	return size.Value(), nil
}
