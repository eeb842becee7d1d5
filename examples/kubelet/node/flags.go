package node

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeletapis "k8s.io/kubelet/pkg/apis"
)

// ExternalCloud is the only cloud provider: an external one.
const ExternalCloud = "external"

// ParseLabels parses the value of --node-labels: key=value pairs separated by commas. A key without
// "=" has an empty value, as in kubectl. Labels that NodeRestriction would refuse are an error.
func ParseLabels(value string) (map[string]string, error) {
	labels := map[string]string{}
	for pair := range strings.SplitSeq(value, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if other, ok := labels[key]; ok && other != value {
			return nil, fmt.Errorf("--node-labels: %q is given twice, as %q and as %q", key, other, value)
		}
		labels[key] = value
	}
	return labels, CheckLabels(labels)
}

// CheckLabels returns an error that lists the labels that are malformed, or that a node may not set
// for itself.
func CheckLabels(labels map[string]string) error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		for _, why := range validation.IsQualifiedName(key) {
			errs = append(errs, fmt.Errorf("--node-labels: key %q: %s", key, why))
		}
		for _, why := range validation.IsValidLabelValue(labels[key]) {
			errs = append(errs, fmt.Errorf("--node-labels: value %q of %q: %s", labels[key], key, why))
		}
		if domain, _, _ := strings.Cut(key, "/"); isKubernetes(domain) && strings.Contains(key, "/") && !kubeletapis.IsKubeletLabel(key) {
			errs = append(errs, fmt.Errorf("--node-labels: %q: in the domains kubernetes.io and k8s.io a node may set labels below %s, and %s only",
				key, strings.Join(kubeletapis.KubeletLabelNamespaces(), ", "), strings.Join(kubeletapis.KubeletLabels(), ", ")))
		}
	}
	return errors.Join(errs...)
}

func isKubernetes(domain string) bool {
	for _, d := range []string{"kubernetes.io", "k8s.io"} {
		if domain == d || strings.HasSuffix(domain, "."+d) {
			return true
		}
	}
	return false
}

// ParseTaints parses the value of --register-with-taints: key=value:effect or key:effect, separated
// by commas.
func ParseTaints(value string) ([]v1.Taint, error) {
	var taints []v1.Taint
	for text := range strings.SplitSeq(value, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		pair, effect, ok := strings.Cut(text, ":")
		if !ok {
			return nil, fmt.Errorf("--register-with-taints: %q is not key=value:effect", text)
		}
		key, value, _ := strings.Cut(pair, "=")
		taints = append(taints, v1.Taint{Key: key, Value: value, Effect: v1.TaintEffect(effect)})
	}
	return taints, CheckTaints("--register-with-taints", taints)
}

// CheckTaints returns an error for malformed or duplicate taints. field is their source for the
// error: --register-with-taints or registerWithTaints.
func CheckTaints(field string, taints []v1.Taint) error {
	var errs []error
	type identity struct {
		key    string
		effect v1.TaintEffect
	}
	seen := map[identity]bool{}
	for _, taint := range taints {
		for _, why := range validation.IsQualifiedName(taint.Key) {
			errs = append(errs, fmt.Errorf("%s: key %q: %s", field, taint.Key, why))
		}
		for _, why := range validation.IsValidLabelValue(taint.Value) {
			errs = append(errs, fmt.Errorf("%s: value %q of %q: %s", field, taint.Value, taint.Key, why))
		}
		switch taint.Effect {
		case v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute:
		default:
			errs = append(errs, fmt.Errorf("%s: effect %q of %q must be NoSchedule, PreferNoSchedule or NoExecute", field, taint.Effect, taint.Key))
		}
		id := identity{taint.Key, taint.Effect}
		if seen[id] {
			errs = append(errs, fmt.Errorf("%s: %q with effect %q is given twice", field, taint.Key, taint.Effect))
		}
		seen[id] = true
	}
	return errors.Join(errs...)
}

// ParseNodeIPs parses the value of --node-ip: one address, or one of each family separated by a
// comma. "0.0.0.0" or "::" alone selects the preferred family. "" returns none.
func ParseNodeIPs(value string) ([]netip.Addr, error) {
	if strings.TrimSpace(value) == "" {
		return nil, nil
	}
	var ips []netip.Addr
	for text := range strings.SplitSeq(value, ",") {
		ip, err := netip.ParseAddr(strings.TrimSpace(text))
		if err != nil || ip.Zone() != "" {
			return nil, fmt.Errorf("--node-ip: %q is not an IP address", text)
		}
		ip = ip.Unmap()
		if ip.IsLoopback() || ip.IsMulticast() || ip.IsLinkLocalUnicast() {
			return nil, fmt.Errorf("--node-ip: %s: other machines cannot reach a loopback, multicast or link-local address", ip)
		}
		ips = append(ips, ip)
	}
	switch {
	case len(ips) > 2, len(ips) == 2 && ips[0].Is4() == ips[1].Is4():
		return nil, fmt.Errorf("--node-ip: %q: give one address, or one IPv4 and one IPv6 address", value)
	case len(ips) == 2 && (ips[0].IsUnspecified() || ips[1].IsUnspecified()):
		return nil, fmt.Errorf("--node-ip: %q: 0.0.0.0 and :: must be the only address", value)
	}
	return ips, nil
}

// ParseCloudProvider parses the value of --cloud-provider: "external", or "" for none.
func ParseCloudProvider(value string) (external bool, err error) {
	switch value {
	case "":
		return false, nil
	case ExternalCloud:
		return true, nil
	default:
		return false, fmt.Errorf("--cloud-provider: %q: must be %q or empty", value, ExternalCloud)
	}
}
