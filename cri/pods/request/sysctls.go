package request

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// safeSysctls are the sysctls that every pod may set: they affect only the pod. Others affect
// more, even if the kernel lets a pod set them. The value is the first kernel version with that
// safety; "" stands for all versions.
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

// safeSysctl reports whether a sysctl is safe with a kernel. A missing or malformed version
// counts as new.
func safeSysctl(name, kernel string) bool {
	since, ok := safeSysctls[name]
	if since == "" {
		return ok
	}
	is, err := version.ParseGeneric(kernel)
	return err != nil || is.AtLeast(version.MustParseGeneric(since))
}

// ForbiddenSysctls returns one error per sysctl that a pod must not set: a sysctl that is neither
// safe nor allowed, or one that would change the node, because the pod shares the namespace.
// Refuse such a pod. kernel is the version from uname -r, which determines the safe sysctls; ""
// counts as new. allowed are names, or prefixes followed by "*"; see CheckSysctls. It is pure.
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

// sysctlFault returns the reason a pod must not set a sysctl, or "".
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

// ownSysctls are the prefixes of sysctls that exist per pod or per network namespace.
var ownSysctls = []string{"kernel.sem", "kernel.shm", "kernel.msg", "fs.mqueue.", "net."}

// CheckSysctls validates the sysctls to allow to pods (allowedUnsafeSysctls). It returns one
// error per entry that is no sysctl name or prefix followed by "*", and per entry that is not
// limited to a pod.
func CheckSysctls(allowed []string) []error {
	var errs []error
	for i, pattern := range allowed {
		begin := strings.TrimSuffix(dotted(pattern), "*")
		switch {
		case begin == "" || strings.ContainsFunc(begin, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-_./", r) }):
			errs = append(errs, fmt.Errorf("[%d]: %q is not a sysctl name, or a prefix with a trailing *", i, pattern))
		case !slices.ContainsFunc(ownSysctls, func(own string) bool { return strings.HasPrefix(begin, own) }):
			errs = append(errs, fmt.Errorf("[%d]: %s is not a namespaced sysctl", i, pattern))
		}
	}
	return errs
}
