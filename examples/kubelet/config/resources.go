package config

import (
	"fmt"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/examples/kubelet/allocatable"
	"github.com/podwright/podwright/examples/kubelet/evictions"
	"github.com/podwright/podwright/examples/kubelet/node"
)

// AllocatableKeys returns the settings for enforcing allocatable resources.
func AllocatableKeys(k *kubeletv1beta1.KubeletConfiguration) allocatable.Keys {
	return allocatable.Keys{Enforce: k.EnforceNodeAllocatable, SystemCgroup: k.SystemReservedCgroup, KubeCgroup: k.KubeReservedCgroup}
}

func (p *problems) resources(k *kubeletv1beta1.KubeletConfiguration) {
	_, reservations := node.ParseReservations(k)
	_, policy := evictions.Policy(k)
	*p = append(*p, reservations, policy)
	for _, err := range request.CheckSysctls(k.AllowedUnsafeSysctls) {
		*p = append(*p, fmt.Errorf("allowedUnsafeSysctls%w", err))
	}
	keys := AllocatableKeys(k)
	*p = append(*p, keys.Check())
	p.refuse(len(k.EnforceNodeAllocatable) > 0 && !*k.CgroupsPerQOS && k.EnforceNodeAllocatable[0] != allocatable.None,
		"enforceNodeAllocatable: %q needs cgroupsPerQOS: true", k.EnforceNodeAllocatable)
	p.refuse(k.ReservedSystemCPUs != "" && (k.SystemReservedCgroup != "" || k.KubeReservedCgroup != ""),
		"reservedSystemCPUs: contradicts systemReservedCgroup and kubeReservedCgroup")
}
