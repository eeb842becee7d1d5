package config

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"

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

func (p *problems) node(f *Flags, k *kubeletv1beta1.KubeletConfiguration) {
	p.refuse(f.Kubeconfig != "" && f.ObjectsDir != "", "--objects-dir: objects come from the API server of --kubeconfig: give one of the two")
	*p = append(*p, node.CheckTaints("registerWithTaints", k.RegisterWithTaints))
}

func (p *problems) servers(k *kubeletv1beta1.KubeletConfiguration) {
	for field, host := range map[string]string{"healthzBindAddress": k.HealthzBindAddress, "address": k.Address} {
		p.refuse(net.ParseIP(host) == nil, "%s: %q is not an IP address", field, host)
	}
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
}

func (p *problems) pulls(k *kubeletv1beta1.KubeletConfiguration) {
	if limit := k.MaxParallelImagePulls; limit != nil {
		p.refuse(*k.SerializeImagePulls && *limit > 1, "maxParallelImagePulls: %d contradicts serializeImagePulls: true", *limit)
	}
	policy, allowed := k.ImagePullCredentialsVerificationPolicy, k.PreloadedImagesVerificationAllowlist
	p.refuse(len(allowed) > 0 && policy != kubeletv1beta1.NeverVerifyAllowlistedImages,
		"preloadedImagesVerificationAllowlist: needs imagePullCredentialsVerificationPolicy: %s", kubeletv1beta1.NeverVerifyAllowlistedImages)
	for i, entry := range allowed {
		err := records.CheckAllowlistEntry(entry)
		p.refuse(err != nil, "preloadedImagesVerificationAllowlist[%d]: %q: %w", i, entry, err)
	}
}

func (p *problems) images(k *kubeletv1beta1.KubeletConfiguration) {
	high, low := *k.ImageGCHighThresholdPercent, *k.ImageGCLowThresholdPercent
	p.refuse(low >= high, "imageGCLowThresholdPercent: %d is not less than imageGCHighThresholdPercent: %d", low, high)
	youngest, oldest := k.ImageMinimumGCAge.Duration, k.ImageMaximumGCAge.Duration
	p.refuse(oldest > 0 && oldest <= youngest, "imageMaximumGCAge: %s is not longer than imageMinimumGCAge: %s", oldest, youngest)
}

func (p *problems) logs(k *kubeletv1beta1.KubeletConfiguration) {
	p.refuse(!filepath.IsAbs(k.PodLogsDir) || filepath.Clean(k.PodLogsDir) != k.PodLogsDir, "podLogsDir: %q is not an absolute, clean path", k.PodLogsDir)
	size, err := resource.ParseQuantity(k.ContainerLogMaxSize)
	p.refuse(err != nil || size.Value() == 0, "containerLogMaxSize: %q is not a size such as 10Mi (negative: no rotation)", k.ContainerLogMaxSize)
}

func (p *problems) containers(k *kubeletv1beta1.KubeletConfiguration) {
	p.refuse(k.CgroupRoot != "" && (!filepath.IsAbs(k.CgroupRoot) || filepath.Clean(k.CgroupRoot) != k.CgroupRoot), "cgroupRoot: %q is not an absolute, clean path", k.CgroupRoot)
	for _, server := range k.ClusterDNS {
		p.refuse(net.ParseIP(server) == nil, "clusterDNS: %q is not an IP address", server)
	}
	users := *k.UserNamespaces.IDsPerPod
	p.refuse(users < idUnit || users%idUnit != 0 || users >= 1<<31, "userNamespaces.idsPerPod: %d is not a multiple of %d below 2^31", users, idUnit)
}
