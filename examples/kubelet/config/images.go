package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright/cri/images/credentials"
	"github.com/podwright/podwright/cri/images/records"
)

// setCredentialProviders takes over where plugins are that know credentials for
// registries, and reads what is said of them: what is wrong there is told at start.
func (c *Config) setCredentialProviders(f *flags) error {
	c.CredentialProviderConfig, c.CredentialProviderBinDir = f.providers, f.providerBin
	switch {
	case f.providers == "" && f.providerBin == "":
		return nil
	case f.providers == "":
		return errors.New("--image-credential-provider-bin-dir needs --image-credential-provider-config")
	case f.providerBin == "":
		return errors.New("--image-credential-provider-config needs --image-credential-provider-bin-dir")
	}
	providers, err := credentials.LoadPluginConfig(f.providers)
	if err != nil {
		return fmt.Errorf("--image-credential-provider-config: %w", err)
	}
	for i := range providers {
		if providers[i].TokenAttributes != nil {
			return fmt.Errorf("--image-credential-provider-config: provider %q: tokenAttributes: there is no API server to give out service account tokens", providers[i].Name)
		}
	}
	if c.CredentialProviderBinDir, err = filepath.Abs(f.providerBin); err != nil {
		return fmt.Errorf("--image-credential-provider-bin-dir: %w", err)
	}
	return nil
}

// setImages takes over who may use images, and when unused ones are removed.
func (c *Config) setImages(file *kubeletv1beta1.KubeletConfiguration) error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	policies := []string{
		string(kubeletv1beta1.NeverVerify), string(kubeletv1beta1.NeverVerifyPreloadedImages),
		string(kubeletv1beta1.NeverVerifyAllowlistedImages), string(kubeletv1beta1.AlwaysVerify),
	}
	c.ImagePullVerification = either(string(file.ImagePullCredentialsVerificationPolicy), string(kubeletv1beta1.NeverVerifyPreloadedImages))
	c.ImagePullAllowlist = file.PreloadedImagesVerificationAllowlist
	refuse(!slices.Contains(policies, c.ImagePullVerification),
		"imagePullCredentialsVerificationPolicy: %q is none of %s", c.ImagePullVerification, strings.Join(policies, ", "))
	refuse(len(c.ImagePullAllowlist) > 0 && c.ImagePullVerification != string(kubeletv1beta1.NeverVerifyAllowlistedImages),
		"preloadedImagesVerificationAllowlist: needs imagePullCredentialsVerificationPolicy: %s", kubeletv1beta1.NeverVerifyAllowlistedImages)
	for i, entry := range c.ImagePullAllowlist {
		err := records.CheckAllowlistEntry(entry)
		refuse(err != nil, "preloadedImagesVerificationAllowlist[%d]: %q: %w", i, entry, err)
	}

	c.ImageGCHigh, c.ImageGCLow = int(valueOr(file.ImageGCHighThresholdPercent, 85)), int(valueOr(file.ImageGCLowThresholdPercent, 80))
	c.ImageMinAge, c.ImageMaxAge = durationOr(file.ImageMinimumGCAge, 2*time.Minute), file.ImageMaximumGCAge.Duration
	for field, percent := range map[string]int{"imageGCHighThresholdPercent": c.ImageGCHigh, "imageGCLowThresholdPercent": c.ImageGCLow} {
		refuse(percent < 0 || percent > 100, "%s: %d is not within 0 and 100", field, percent)
	}
	refuse(c.ImageGCLow >= c.ImageGCHigh, "imageGCLowThresholdPercent: %d is not less than imageGCHighThresholdPercent: %d", c.ImageGCLow, c.ImageGCHigh)
	refuse(c.ImageMinAge < 0, "imageMinimumGCAge: %s is negative", c.ImageMinAge)
	refuse(c.ImageMaxAge < 0, "imageMaximumGCAge: %s is negative", c.ImageMaxAge)
	refuse(c.ImageMaxAge > 0 && c.ImageMaxAge <= c.ImageMinAge, "imageMaximumGCAge: %s is not longer than imageMinimumGCAge: %s", c.ImageMaxAge, c.ImageMinAge)
	return errors.Join(errs...)
}

// The values of memorySwap.swapBehavior.
const noSwap, limitedSwap = "NoSwap", "LimitedSwap"

// setSwap takes over whether containers may swap.
func (c *Config) setSwap(file *kubeletv1beta1.KubeletConfiguration) error {
	switch behavior := file.MemorySwap.SwapBehavior; behavior {
	case "", noSwap:
	case limitedSwap:
		c.LimitedSwap = true
	default:
		return fmt.Errorf("memorySwap.swapBehavior: %q is neither %s nor %s", behavior, noSwap, limitedSwap)
	}
	return nil
}

// minLogPeriod is how often the sizes of logs can be looked at.
const minLogPeriod = 3 * time.Second

// setLogs takes over when the logs of containers are rotated.
func (c *Config) setLogs(file *kubeletv1beta1.KubeletConfiguration) error {
	var errs []error
	size, err := resource.ParseQuantity(either(file.ContainerLogMaxSize, "10Mi"))
	if c.LogMaxSize = size.Value(); err != nil || c.LogMaxSize == 0 {
		errs = append(errs, fmt.Errorf("containerLogMaxSize: %q is not a size such as 10Mi (negative: no rotation)", file.ContainerLogMaxSize))
	}
	c.LogMaxFiles, c.LogWorkers = int(valueOr(file.ContainerLogMaxFiles, 5)), int(valueOr(file.ContainerLogMaxWorkers, 1))
	if c.LogMaxFiles < 2 {
		errs = append(errs, fmt.Errorf("containerLogMaxFiles: %d is less than 2", c.LogMaxFiles))
	}
	if c.LogWorkers < 1 {
		errs = append(errs, fmt.Errorf("containerLogMaxWorkers: %d is less than 1", c.LogWorkers))
	}
	c.LogPeriod = 10 * time.Second
	if p := file.ContainerLogMonitorInterval; p != nil {
		c.LogPeriod = p.Duration
	}
	if c.LogPeriod < minLogPeriod {
		errs = append(errs, fmt.Errorf("containerLogMonitorInterval: %s is less than %s", c.LogPeriod, minLogPeriod))
	}
	return errors.Join(errs...)
}

// setDeadContainers takes over which dead containers are kept.
func (c *Config) setDeadContainers(f *flags) error {
	c.DeadContainers, c.DeadPerContainer, c.DeadMinAge = f.deadContainers, f.deadPerContainer, f.deadMinAge
	if c.DeadMinAge < 0 {
		return fmt.Errorf("--minimum-container-ttl-duration: %s is negative", c.DeadMinAge)
	}
	return nil
}

// idUnit is what the number of users of a pod is a multiple of.
const idUnit = 65536

// setUsers takes over how many users pods have that have users of their own.
func (c *Config) setUsers(file *kubeletv1beta1.KubeletConfiguration) error {
	c.IDsPerPod = idUnit
	if u := file.UserNamespaces; u != nil {
		c.IDsPerPod = valueOr(u.IDsPerPod, idUnit)
	}
	if c.IDsPerPod < idUnit || c.IDsPerPod%idUnit != 0 || c.IDsPerPod >= 1<<31 {
		return fmt.Errorf("userNamespaces.idsPerPod: %d is not a multiple of %d below 2^31", c.IDsPerPod, idUnit)
	}
	return nil
}
