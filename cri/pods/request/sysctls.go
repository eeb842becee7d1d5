package request

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// safeSysctl tells which sysctls a pod may set without anybody's leave: they
// count for the pod alone, and can harm nobody else. The others can, even where
// the kernel lets a pod set them.
func safeSysctl(name string) bool {
	switch name {
	case "kernel.shm_rmid_forced",
		"net.ipv4.ip_local_port_range",
		"net.ipv4.ip_local_reserved_ports",
		"net.ipv4.ip_unprivileged_port_start",
		"net.ipv4.ping_group_range",
		"net.ipv4.tcp_fin_timeout",
		"net.ipv4.tcp_keepalive_intvl",
		"net.ipv4.tcp_keepalive_probes",
		"net.ipv4.tcp_keepalive_time",
		"net.ipv4.tcp_rmem",
		"net.ipv4.tcp_syncookies",
		"net.ipv4.tcp_wmem":
		return true
	}
	return false
}

// ForbiddenSysctls lists the sysctls that a pod must not set, one error per
// field: those that are not known to be safe, and those that would change the
// node, since the pod shares the namespace in which they count. A caller refuses
// such a pod. It is pure.
func ForbiddenSysctls(pod *v1.Pod) []error {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	var errs []error
	for i, s := range pod.Spec.SecurityContext.Sysctls {
		if why := sysctlFault(pod, dotted(s.Name)); why != "" {
			errs = append(errs, fmt.Errorf("spec.securityContext.sysctls[%d]: %s: %s", i, s.Name, why))
		}
	}
	return errs
}

// sysctlFault says why a pod must not set a sysctl, "" if it may.
func sysctlFault(pod *v1.Pod, name string) string {
	switch {
	case !safeSysctl(name):
		return "not among the safe sysctls"
	case pod.Spec.HostNetwork && strings.HasPrefix(name, "net."):
		return "not allowed with hostNetwork: it would change the node"
	case pod.Spec.HostIPC && strings.HasPrefix(name, "kernel."):
		return "not allowed with hostIPC: it would change the node"
	}
	return ""
}
