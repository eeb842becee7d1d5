package request

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// environment is a container's variables in a fixed order: that of the first
// mention of each name. A later mention changes the value in place.
type environment struct {
	names  []string
	values map[string]string
}

func (e *environment) set(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

func (e *environment) lookup(name string) (string, bool) {
	value, ok := e.values[name]
	return value, ok
}

func (e *environment) expandAll(texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = expand(text, e.lookup)
	}
	return out
}

func (e *environment) keyValues() []*runtimeapi.KeyValue {
	out := make([]*runtimeapi.KeyValue, len(e.names))
	for i, name := range e.names {
		out[i] = &runtimeapi.KeyValue{Key: name, Value: []byte(e.values[name])}
	}
	return out
}

// makeEnv resolves the variables of a container, each from those before it.
func makeEnv(pod *v1.Pod, c *v1.Container, f fields) (*environment, error) {
	env := &environment{values: map[string]string{}}
	for i := range c.Env {
		v := &c.Env[i]
		switch {
		case v.Value != "" || v.ValueFrom == nil:
			env.set(v.Name, expand(v.Value, env.lookup))
		case v.ValueFrom.FieldRef != nil:
			value, err := f.value(pod, v.ValueFrom.FieldRef.FieldPath)
			if err != nil {
				return nil, fmt.Errorf("env %s: %w", v.Name, err)
			}
			env.set(v.Name, value)
		default:
			return nil, fmt.Errorf("env %s: this kind of valueFrom is not supported", v.Name)
		}
	}
	return env, nil
}

// expand replaces $(NAME) by the variable's value. $$ is a plain $; names that
// are unknown and parentheses that do not close stay as they are.
func expand(text string, lookup func(string) (string, bool)) string {
	var out strings.Builder
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 || i == len(text)-1 {
			return out.String() + text
		}
		out.WriteString(text[:i])
		rest := text[i+1:]
		end := -1
		if rest[0] == '(' {
			end = strings.IndexByte(rest, ')')
		}
		switch {
		case rest[0] == '$':
			out.WriteByte('$')
			text = rest[1:]
		case end < 0:
			out.WriteByte('$')
			out.WriteByte(rest[0])
			text = rest[1:]
		default:
			if value, ok := lookup(rest[1:end]); ok {
				out.WriteString(value)
			} else {
				out.WriteString("$" + rest[:end+1])
			}
			text = rest[end+1:]
		}
	}
}

// fields is what a fieldRef can name besides the pod's spec and metadata.
type fields struct {
	nodeName string
	hostIPs  []string
	podIPs   []string
}

// value returns the field of a pod that a fieldRef names.
func (f fields) value(pod *v1.Pod, path string) (string, error) {
	if name, key, ok := subscript(path); ok {
		switch name {
		case "metadata.labels":
			return pod.Labels[key], nil
		case "metadata.annotations":
			return pod.Annotations[key], nil
		}
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
		return f.nodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return first(f.hostIPs), nil
	case "status.hostIPs":
		return strings.Join(f.hostIPs, ","), nil
	case "status.podIP":
		return first(f.podIPs), nil
	case "status.podIPs":
		return strings.Join(f.podIPs, ","), nil
	}
	return "", fmt.Errorf("fieldRef: unknown field %q", path)
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// subscript cuts "metadata.labels['key']".
func subscript(path string) (name, key string, ok bool) {
	name, rest, ok := strings.Cut(path, "['")
	if !ok {
		return "", "", false
	}
	key, ok = strings.CutSuffix(rest, "']")
	return name, key, ok
}

// formatMap writes one key="value" per line, sorted.
func formatMap(m map[string]string) string {
	lines := make([]string, 0, len(m))
	for key, value := range m {
		lines = append(lines, key+"="+strconv.Quote(value))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// orderIPs puts the addresses of the node's own family first and keeps one per
// family.
func orderIPs(podIPs, nodeIPs []string) []string {
	wantV6 := len(nodeIPs) > 0 && isIPv6(nodeIPs[0])
	var out []string
	for _, v6 := range []bool{wantV6, !wantV6} {
		i := slices.IndexFunc(podIPs, func(ip string) bool { return isIPv6(ip) == v6 })
		if i >= 0 {
			out = append(out, podIPs[i])
		}
	}
	return out
}

func isIPv6(ip string) bool {
	addr, err := netip.ParseAddr(ip)
	return err == nil && addr.Unmap().Is6()
}
