package allocatable

import (
	"errors"
	"fmt"
	"slices"

	"github.com/podwright/podwright/cri/cgroups"
)

// Values of enforceNodeAllocatable. The compressible ones set only the weight of CPU.
const (
	Pods               = "pods"
	System             = "system-reserved"
	SystemCompressible = "system-reserved-compressible"
	Kube               = "kube-reserved"
	KubeCompressible   = "kube-reserved-compressible"
	None               = "none"
)

// Keys has the values of enforceNodeAllocatable and the reserved cgroups.
type Keys struct {
	// Enforce is enforceNodeAllocatable.
	Enforce []string
	// SystemCgroup and KubeCgroup are systemReservedCgroup and kubeReservedCgroup in the driver's
	// notation: "/system.slice", "/system".
	SystemCgroup, KubeCgroup string
}

func (k *Keys) has(key string) bool { return slices.Contains(k.Enforce, key) }

// Check returns all errors in k, joined.
func (k *Keys) Check() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("enforceNodeAllocatable: "+format, args...))
		}
	}
	for _, key := range k.Enforce {
		switch key {
		case Pods, None:
		case System, SystemCompressible:
			refuse(k.SystemCgroup == "", "%s needs systemReservedCgroup", key)
		case Kube, KubeCompressible:
			refuse(k.KubeCgroup == "", "%s needs kubeReservedCgroup", key)
		default:
			refuse(true, "%q must be one of %s, %s, %s, %s, %s, %s", key, Pods, System, SystemCompressible, Kube, KubeCompressible, None)
		}
	}
	refuse(k.has(None) && len(k.Enforce) > 1, "%s must be the only value", None)
	refuse(k.has(System) && k.has(SystemCompressible), "%s and %s exclude each other", System, SystemCompressible)
	refuse(k.has(Kube) && k.has(KubeCompressible), "%s and %s exclude each other", Kube, KubeCompressible)
	return errors.Join(errs...)
}

// compressible returns only the values that slow processes down.
func compressible(v cgroups.Values) cgroups.Values { return cgroups.Values{Shares: v.Shares} }
