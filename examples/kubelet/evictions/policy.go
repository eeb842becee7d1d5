package evictions

import (
	"errors"
	"fmt"
	"math"
	"slices"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright/examples/kubelet/allocatable"
	"github.com/podwright/podwright/syncloop/eviction"
)

// Policy converts evictionHard, evictionSoft and related fields of a configuration with defaults
// applied. Its error names each invalid field. A negative evictionMaxPodGracePeriod does not limit
// grace periods.
func Policy(k *kubeletv1beta1.KubeletConfiguration) (eviction.Policy, error) {
	var errs [2]error
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
	if p.MaxPodGrace < 0 { // the pod's own grace period
		p.MaxPodGrace = math.MaxInt32
	}
	return p, errors.Join(errs[:]...)
}
