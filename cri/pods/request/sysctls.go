package request

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// safeSysctls are those that a pod may set without anybody's leave: they count for the
// pod alone, and can harm nobody else. The others can, even where the kernel lets a pod
// set them. Each stands with the kernel from which on that is so; "" is any.
var safeSysctls = map[string]string{
	"kernel.shm_rmid_forced":              "",
	"net.ipv4.ip_local_port_range":        "",
	"net.ipv4.ip_local_reserved_ports":    "3.16",
	"net.ipv4.ip_unprivileged_port_start": "",
	"net.ipv4.ping_group_range":           "",
	"net.ipv4.tcp_fin_timeout":            "4.6",
	"net.ipv4.tcp_keepalive_intvl":        "4.5",
	"net.ipv4.tcp_keepalive_probes":       "4.5",
	"net.ipv4.tcp_keepalive_time":         "4.5",
	"net.ipv4.tcp_rmem":                   "4.15",
	"net.ipv4.tcp_syncookies":             "",
	"net.ipv4.tcp_wmem":                   "4.15",
}

// safeSysctl tells whether a sysctl is safe with a kernel. One whose version is not
// known, or makes no sense, is thought to be new.
func safeSysctl(name, kernel string) bool {
	since, ok := safeSysctls[name]
	if since == "" {
		return ok
	}
	is, err := version.ParseGeneric(kernel)
	return err != nil || is.AtLeast(version.MustParseGeneric(since))
}

// ForbiddenSysctls lists the sysctls that a pod must not set, one error per
// field: those that are neither known to be safe nor allowed, and those that would
// change the node, since the pod shares the namespace in which they count. kernel is
// the version of the node's, as uname -r says it, on which it depends which are safe; ""
// is a new one. allowed are names, or begins of names with a "*" behind them; see
// CheckSysctls. A caller refuses such a pod. It is pure.
func ForbiddenSysctls(pod *v1.Pod, kernel string, allowed ...string) []error {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	var errs []error
	for i, s := range pod.Spec.SecurityContext.Sysctls {
		if why := sysctlFault(pod, dotted(s.Name), kernel, allowed); why != "" {
			errs = append(errs, fmt.Errorf("spec.securityContext.sysctls[%d]: %s: %s", i, s.Name, why))
		}
	}
	return errs
}

// sysctlFault says why a pod must not set a sysctl, "" if it may.
func sysctlFault(pod *v1.Pod, name, kernel string, allowed []string) string {
	switch {
	case !safeSysctl(name, kernel) && !slices.ContainsFunc(allowed, func(pattern string) bool { return matches(dotted(pattern), name) }):
		return "not among the safe sysctls"
	case pod.Spec.HostNetwork && strings.HasPrefix(name, "net."):
		return "not allowed with hostNetwork: it would change the node"
	case pod.Spec.HostIPC && !strings.HasPrefix(name, "net."):
		return "not allowed with hostIPC: it would change the node"
	}
	return ""
}

func matches(pattern, name string) bool {
	if begin, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, begin)
	}
	return pattern == name
}

// ownSysctls are the begins of those that each pod has for itself, or for its network.
var ownSysctls = []string{"kernel.sem", "kernel.shm", "kernel.msg", "fs.mqueue.", "net."}

// CheckSysctls lists what cannot be allowed to pods (allowedUnsafeSysctls), one error for
// each: what is no name of a sysctl, or begin of one with a "*" behind it, and what is not
// known to count for a pod alone.
func CheckSysctls(allowed []string) []error {
	var errs []error
	for i, pattern := range allowed {
		begin := strings.TrimSuffix(dotted(pattern), "*")
		switch {
		case begin == "" || strings.ContainsFunc(begin, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-_./", r) }):
			errs = append(errs, fmt.Errorf("[%d]: %q is no name of a sysctl, nor the begin of one with a * behind it", i, pattern))
		case !slices.ContainsFunc(ownSysctls, func(own string) bool { return strings.HasPrefix(begin, own) }):
			errs = append(errs, fmt.Errorf("[%d]: %s is not known to count for a pod alone", i, pattern))
		}
	}
	return errs
}
