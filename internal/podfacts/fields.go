package podfacts

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Surroundings are the values of a fieldRef that are not in the pod's spec and metadata.
type Surroundings struct {
	// NodeName is the value of spec.nodeName for a pod without one.
	NodeName string
	// HostIPs are the node's addresses, the primary one first.
	HostIPs []string
	// PodIPs are the pod's addresses in the order of OrderIPs.
	PodIPs []string
}

// FieldValue returns the field of a fieldRef of the downward API as text. A value that the pod
// does not have yet, such as an address before it has a sandbox, is "".
func FieldValue(pod *v1.Pod, path string, s Surroundings) (string, error) {
	if name, key, ok := subscript(path); ok {
		return subscripted(pod, name, key)
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return formatMap(pod.Labels), nil
	case "metadata.annotations":
		return formatMap(pod.Annotations), nil
	case "spec.nodeName":
		if pod.Spec.NodeName == "" {
			return s.NodeName, nil
		}
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.podIP":
		return first(s.PodIPs), nil
	case "status.podIPs":
		return strings.Join(s.PodIPs, ","), nil
	case "status.hostIP", "status.hostIPs":
		return hostAddress(path, s.HostIPs)
	}
	return "", fmt.Errorf("unsupported fieldPath: %q", path)
}

// hostAddress returns an error while no address is available, because an empty one would remain
// in the container permanently.
func hostAddress(path string, ips []string) (string, error) {
	switch {
	case len(ips) == 0:
		return "", fmt.Errorf("%s: the node's addresses are unavailable", path)
	case path == "status.hostIP":
		return ips[0], nil
	}
	return strings.Join(ips, ","), nil
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// subscript splits "metadata.labels['key']".
func subscript(path string) (name, key string, ok bool) {
	rest, ok := strings.CutSuffix(path, "']")
	if !ok {
		return "", "", false
	}
	name, key, ok = strings.Cut(rest, "['")
	return name, key, ok && name != ""
}

func subscripted(pod *v1.Pod, name, key string) (string, error) {
	var from map[string]string
	valid := key
	switch name {
	case "metadata.labels":
		from = pod.Labels
	case "metadata.annotations":
		from, valid = pod.Annotations, strings.ToLower(key)
	default:
		return "", fmt.Errorf("%q has no keys", name)
	}
	if faults := validation.IsQualifiedName(valid); len(faults) > 0 {
		return "", fmt.Errorf("invalid key %q of %s: %s", key, name, strings.Join(faults, "; "))
	}
	return from[key], nil
}

// formatMap formats one key="value" per line, sorted.
func formatMap(m map[string]string) string {
	var out []byte
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			out = append(out, '\n')
		}
		out = append(append(out, key...), '=')
		out = strconv.AppendQuote(out, m[key])
	}
	return string(out)
}

// OrderIPs returns one address per family, first of the family of the node's primary address, or
// of IPv4 if that is unavailable. It omits invalid addresses.
func OrderIPs(podIPs, nodeIPs []string) []string {
	wantV6 := len(nodeIPs) > 0 && IsIPv6(nodeIPs[0])
	var out []string
	for _, v6 := range []bool{wantV6, !wantV6} {
		i := slices.IndexFunc(podIPs, func(ip string) bool {
			addr, err := netip.ParseAddr(ip)
			return err == nil && addr.Unmap().Is6() == v6
		})
		if i >= 0 {
			out = append(out, podIPs[i])
		}
	}
	return out
}

// IsIPv6 reports whether text is an address of IP version 6. An IPv4-mapped address is not.
func IsIPv6(text string) bool {
	addr, err := netip.ParseAddr(text)
	return err == nil && addr.Unmap().Is6()
}

// ResourceValue returns the amount of a resourceFieldRef: the resource of its container, or of
// own without a container name, divided by the divisor (default: 1) and rounded up. An unset
// limit of cpu or memory is the pod's limit, or else the node's allocatable amount. An unset
// limit of ephemeral storage is the node's allocatable amount.
func ResourceValue(pod *v1.Pod, own *v1.Container, ref *v1.ResourceFieldSelector, allocatable v1.ResourceList) (string, error) {
	c := own
	if ref.ContainerName != "" {
		c = findContainer(pod, ref.ContainerName)
	}
	if c == nil {
		return "", fmt.Errorf("container %q not found", ref.ContainerName)
	}
	amount, err := resourceAmount(pod, c, ref.Resource, allocatable)
	if err != nil {
		return "", err
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if divisor.Sign() < 0 {
		return "", fmt.Errorf("divisor %s is negative", divisor.String())
	}
	if divisor.AsApproximateFloat64() > maxDivisor {
		return "", fmt.Errorf("divisor %s is too large", divisor.String())
	}
	value, by := amount.Value(), divisor.Value()
	if strings.HasSuffix(ref.Resource, ".cpu") {
		value, by = amount.MilliValue(), divisor.MilliValue()
	}
	return strconv.FormatInt(ceilDiv(value, by), 10), nil
}

// maxDivisor is the largest divisor. Its thousandths fit into an int64.
const maxDivisor = 1e15

// ceilDiv divides by a positive number and rounds up.
func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}

func resourceAmount(pod *v1.Pod, c *v1.Container, field string, allocatable v1.ResourceList) (resource.Quantity, error) {
	kind, text, _ := strings.Cut(field, ".")
	name := v1.ResourceName(text)
	plain := name == v1.ResourceCPU || name == v1.ResourceMemory || name == v1.ResourceEphemeralStorage
	if !plain && !strings.HasPrefix(text, v1.ResourceHugePagesPrefix) {
		return resource.Quantity{}, fmt.Errorf("unsupported container resource: %q", field)
	}
	switch kind {
	case "requests":
		return c.Resources.Requests[name], nil
	case "limits":
		if q := c.Resources.Limits[name]; !q.IsZero() || !plain {
			return q, nil
		}
		if r := pod.Spec.Resources; r != nil && name != v1.ResourceEphemeralStorage {
			if q := r.Limits[name]; !q.IsZero() {
				return q, nil
			}
		}
		return allocatable[name], nil
	}
	return resource.Quantity{}, fmt.Errorf("unsupported container resource: %q", field)
}

func findContainer(pod *v1.Pod, name string) *v1.Container {
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
