package evictions

import (
	"errors"
	"fmt"
	"slices"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright/examples/kubelet/allocatable"
	"github.com/podwright/podwright/syncloop/eviction"
)

// Policy converts evictionHard, evictionSoft and related fields of a configuration with defaults
// applied. Its error names each invalid field.
func Policy(k *kubeletv1beta1.KubeletConfiguration) (eviction.Policy, error) {
	var errs [3]error
	p := eviction.Policy{
		Transition:   k.EvictionPressureTransitionPeriod.Duration,
		MaxPodGrace:  int64(k.EvictionMaxPodGracePeriod),
		LocalStorage: k.LocalStorageCapacityIsolation == nil || *k.LocalStorageCapacityIsolation,
	}
	p.Thresholds, errs[0] = eviction.Settings{
		Hard: k.EvictionHard, Soft: k.EvictionSoft, SoftGrace: k.EvictionSoftGracePeriod, MinimumReclaim: k.EvictionMinimumReclaim,
		MergeDefaults: k.MergeDefaultEvictionSettings != nil && *k.MergeDefaultEvictionSettings,
		EnforcePods:   slices.Contains(k.EnforceNodeAllocatable, allocatable.Pods),
	}.Parse()
	if p.Transition < 0 {
		errs[1] = fmt.Errorf("evictionPressureTransitionPeriod: %s is negative", p.Transition)
	}
	if p.MaxPodGrace < 0 {
		errs[2] = fmt.Errorf("evictionMaxPodGracePeriod: %d is negative", p.MaxPodGrace)
	}
	return p, errors.Join(errs[:]...)
}
