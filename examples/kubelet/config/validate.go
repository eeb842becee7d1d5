package config

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/images/records"
	"github.com/podwright/podwright/examples/kubelet/node"
)

// problems collects errors, each with the name of its field.
type problems []error // nil if valid

func (p *problems) refuse(bad bool, format string, args ...any) {
	if bad {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}

func (c *Config) validate() problems {
	var p problems
	p.refuse(c.Flags.MinContainerTTL < 0, "--minimum-container-ttl-duration: %s is negative", c.Flags.MinContainerTTL)
	p.refuse(c.Flags.ExitOnLockContention && c.Flags.LockFile == "", "--exit-on-lock-contention: needs --lock-file")
	k := &c.Kubelet
	p.node(&c.Flags, k)
	p.process(k)
	p.sources(k)
	p.servers(k)
	p.api(c)
	p.runtime(k)
	p.pulls(k)
	p.images(k)
	p.logs(k)
	p.containers(k)
	p.resources(k)
	p.shutdown(k)
	return p
}

func (p *problems) sources(k *kubeletv1beta1.KubeletConfiguration) {
	p.positive("syncFrequency", k.SyncFrequency.Duration)
	p.positive("fileCheckFrequency", k.FileCheckFrequency.Duration)
	p.positive("httpCheckFrequency", k.HTTPCheckFrequency.Duration)
	if k.StaticPodURL == "" {
		return
	}
	// The error of url.Parse would contain the password of the URL.
	where, err := url.Parse(k.StaticPodURL)
	if err != nil {
		p.refuse(true, "staticPodURL (--manifest-url): is not a URL")
		return
	}
	p.refuse((where.Scheme != "http" && where.Scheme != "https") || where.Host == "",
		"staticPodURL (--manifest-url): %q is no http or https address", where.Redacted())
}

func (p *problems) positive(field string, d time.Duration) {
	p.refuse(d <= 0, "%s: %s is not positive", field, d)
}

func (p *problems) node(f *Flags, k *kubeletv1beta1.KubeletConfiguration) {
	p.refuse(f.Kubeconfig != "" && f.ObjectsDir != "", "--objects-dir: objects come from the API server of --kubeconfig: give one of the two")
	*p = append(*p, node.CheckTaints("registerWithTaints", k.RegisterWithTaints))
	p.positive("nodeStatusUpdateFrequency", k.NodeStatusUpdateFrequency.Duration)
	p.positive("nodeStatusReportFrequency", k.NodeStatusReportFrequency.Duration)
	p.refuse(k.NodeLeaseDurationSeconds < 1, "nodeLeaseDurationSeconds: %d is not positive", k.NodeLeaseDurationSeconds)
	p.refuse(*k.NodeStatusMaxImages < -1, "nodeStatusMaxImages: %d is less than -1", *k.NodeStatusMaxImages)
	p.refuse(*k.KubeAPIQPS < 0 || k.KubeAPIBurst < 0, "kubeAPIQPS, kubeAPIBurst: %d, %d: negative", *k.KubeAPIQPS, k.KubeAPIBurst)
	p.refuse(*k.EventRecordQPS < 0 || k.EventBurst < 0, "eventRecordQPS, eventBurst: %d, %d: negative", *k.EventRecordQPS, k.EventBurst)
	p.refuse(k.ContentType != "application/json" && k.ContentType != "application/vnd.kubernetes.protobuf", "contentType: %q is neither application/json nor application/vnd.kubernetes.protobuf", k.ContentType)
}

func (p *problems) servers(k *kubeletv1beta1.KubeletConfiguration) {
	server := func(field, host string, port int32) {
		p.refuse(port < 0 || port > 65535, "%s: %d is not a port (0 to 65535)", field, port)
		p.refuse(net.ParseIP(host) == nil, "%s: %q is not an IP address", field, host)
	}
	server("healthzPort", k.HealthzBindAddress, *k.HealthzPort)
	server("readOnlyPort", k.Address, k.ReadOnlyPort)
}

func (p *problems) runtime(k *kubeletv1beta1.KubeletConfiguration) {
	endpoint := func(field, value string) {
		_, err := cri.ParseEndpoint(value)
		p.refuse(err != nil, "%s: %w (or %q)", field, err, Embedded)
	}
	runtime, images := k.ContainerRuntimeEndpoint, k.ImageServiceEndpoint
	if runtime != Embedded {
		endpoint("containerRuntimeEndpoint", runtime)
		if images != runtime && images != Embedded {
			endpoint("imageServiceEndpoint", images)
		}
	}
	p.refuse(images != runtime && (images == Embedded || runtime == Embedded), "imageServiceEndpoint: the embedded runtime brings its own images")
	p.positive("runtimeRequestTimeout", k.RuntimeRequestTimeout.Duration)
}

func (p *problems) pulls(k *kubeletv1beta1.KubeletConfiguration) {
	if limit := k.MaxParallelImagePulls; limit != nil {
		p.refuse(*limit < 0, "maxParallelImagePulls: %d is negative", *limit)
		p.refuse(*k.SerializeImagePulls && *limit > 1, "maxParallelImagePulls: %d contradicts serializeImagePulls: true", *limit)
	}
	p.refuse(*k.RegistryPullQPS < 0 || k.RegistryBurst < 0, "registryPullQPS, registryBurst: %d, %d: negative", *k.RegistryPullQPS, k.RegistryBurst)
	policies := []string{
		string(kubeletv1beta1.NeverVerify), string(kubeletv1beta1.NeverVerifyPreloadedImages),
		string(kubeletv1beta1.NeverVerifyAllowlistedImages), string(kubeletv1beta1.AlwaysVerify),
	}
	policy, allowed := k.ImagePullCredentialsVerificationPolicy, k.PreloadedImagesVerificationAllowlist
	p.refuse(!slices.Contains(policies, string(policy)), "imagePullCredentialsVerificationPolicy: %q must be one of %s", policy, strings.Join(policies, ", "))
	p.refuse(len(allowed) > 0 && policy != kubeletv1beta1.NeverVerifyAllowlistedImages,
		"preloadedImagesVerificationAllowlist: needs imagePullCredentialsVerificationPolicy: %s", kubeletv1beta1.NeverVerifyAllowlistedImages)
	for i, entry := range allowed {
		err := records.CheckAllowlistEntry(entry)
		p.refuse(err != nil, "preloadedImagesVerificationAllowlist[%d]: %q: %w", i, entry, err)
	}
}

func (p *problems) images(k *kubeletv1beta1.KubeletConfiguration) {
	high, low := *k.ImageGCHighThresholdPercent, *k.ImageGCLowThresholdPercent
	p.refuse(high < 0 || high > 100, "imageGCHighThresholdPercent: %d is not within 0 and 100", high)
	p.refuse(low < 0 || low > 100, "imageGCLowThresholdPercent: %d is not within 0 and 100", low)
	p.refuse(low >= high, "imageGCLowThresholdPercent: %d is not less than imageGCHighThresholdPercent: %d", low, high)
	youngest, oldest := k.ImageMinimumGCAge.Duration, k.ImageMaximumGCAge.Duration
	p.refuse(youngest < 0, "imageMinimumGCAge: %s is negative", youngest)
	p.refuse(oldest < 0, "imageMaximumGCAge: %s is negative", oldest)
	p.refuse(oldest > 0 && oldest <= youngest, "imageMaximumGCAge: %s is not longer than imageMinimumGCAge: %s", oldest, youngest)
}

// minLogPeriod is the shortest period of log rotation.
const minLogPeriod = 3 * time.Second

func (p *problems) logs(k *kubeletv1beta1.KubeletConfiguration) {
	p.refuse(!filepath.IsAbs(k.PodLogsDir) || filepath.Clean(k.PodLogsDir) != k.PodLogsDir, "podLogsDir: %q is not an absolute, clean path", k.PodLogsDir)
	size, err := resource.ParseQuantity(k.ContainerLogMaxSize)
	p.refuse(err != nil || size.Value() == 0, "containerLogMaxSize: %q is not a size such as 10Mi (negative: no rotation)", k.ContainerLogMaxSize)
	p.refuse(*k.ContainerLogMaxFiles < 2, "containerLogMaxFiles: %d is less than 2", *k.ContainerLogMaxFiles)
	p.refuse(*k.ContainerLogMaxWorkers < 1, "containerLogMaxWorkers: %d is less than 1", *k.ContainerLogMaxWorkers)
	period := k.ContainerLogMonitorInterval.Duration
	p.refuse(period < minLogPeriod, "containerLogMonitorInterval: %s is less than %s", period, minLogPeriod)
}

func (p *problems) containers(k *kubeletv1beta1.KubeletConfiguration) {
	backoff, quota := k.CrashLoopBackOff.MaxContainerRestartPeriod.Duration, k.CPUCFSQuotaPeriod.Duration
	p.refuse(backoff < time.Second || backoff > 5*time.Minute, "crashLoopBackOff.maxContainerRestartPeriod: %s is not within 1s and 300s", backoff)
	p.refuse(quota < time.Millisecond || quota > time.Second, "cpuCFSQuotaPeriod: %s is not within 1ms and 1s", quota)
	p.refuse(k.CgroupDriver != cri.CgroupDriverCgroupfs && k.CgroupDriver != cri.CgroupDriverSystemd, "cgroupDriver: %q is neither %s nor %s", k.CgroupDriver, cri.CgroupDriverCgroupfs, cri.CgroupDriverSystemd)
	p.refuse(k.CgroupRoot != "" && (!filepath.IsAbs(k.CgroupRoot) || filepath.Clean(k.CgroupRoot) != k.CgroupRoot), "cgroupRoot: %q is not an absolute, clean path", k.CgroupRoot)
	for _, server := range k.ClusterDNS {
		p.refuse(net.ParseIP(server) == nil, "clusterDNS: %q is not an IP address", server)
	}
	swap := k.MemorySwap.SwapBehavior
	p.refuse(swap != NoSwap && swap != LimitedSwap, "memorySwap.swapBehavior: %q is neither %s nor %s", swap, NoSwap, LimitedSwap)
	users := *k.UserNamespaces.IDsPerPod
	p.refuse(users < idUnit || users%idUnit != 0 || users >= 1<<31, "userNamespaces.idsPerPod: %d is not a multiple of %d below 2^31", users, idUnit)
}
