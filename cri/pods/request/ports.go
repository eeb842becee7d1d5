package request

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// portMappings returns the ports of the regular containers, then of the sidecars. A port with the
// same name or key as an earlier one of its container is skipped.
func portMappings(pod *v1.Pod) []*runtimeapi.PortMapping {
	var out []*runtimeapi.PortMapping
	add := func(ports []v1.ContainerPort) {
		seen := make(map[string]bool, len(ports))
		for _, port := range ports {
			key := portKey(port)
			if seen[key] {
				continue
			}
			seen[key] = true
			out = append(out, &runtimeapi.PortMapping{
				Protocol:      protocol(port.Protocol),
				ContainerPort: port.ContainerPort,
				HostPort:      port.HostPort,
				HostIp:        port.HostIP,
			})
		}
	}
	for i := range pod.Spec.Containers {
		add(pod.Spec.Containers[i].Ports)
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podfacts.IsSidecar(c) {
			add(c.Ports)
		}
	}
	return out
}

func portKey(port v1.ContainerPort) string {
	if port.Name != "" {
		return port.Name
	}
	return strings.Join([]string{string(port.Protocol), port.HostIP,
		strconv.Itoa(int(port.ContainerPort)), strconv.Itoa(int(port.HostPort))}, ":")
}

func protocol(p v1.Protocol) runtimeapi.Protocol {
	return runtimeapi.Protocol(runtimeapi.Protocol_value[string(p)]) // unknown protocols count as TCP
}

// checkPodPorts returns an error if a container has an invalid port.
func checkPodPorts(pod *v1.Pod) error {
	for _, list := range []struct {
		name       string
		containers []v1.Container
	}{{"containers", pod.Spec.Containers}, {"initContainers", pod.Spec.InitContainers}} {
		for i := range list.containers {
			if err := checkPorts(list.containers[i].Ports); err != nil {
				return fmt.Errorf("spec.%s[%d].%w", list.name, i, err)
			}
		}
	}
	return nil
}

func checkPorts(ports []v1.ContainerPort) error {
	const max = 65535
	for i, port := range ports {
		_, known := runtimeapi.Protocol_value[string(port.Protocol)]
		switch {
		case port.ContainerPort < 1 || port.ContainerPort > max:
			return fmt.Errorf("ports[%d].containerPort: %d is not a port", i, port.ContainerPort)
		case port.HostPort < 0 || port.HostPort > max:
			return fmt.Errorf("ports[%d].hostPort: %d is not a port", i, port.HostPort)
		case !known && port.Protocol != "":
			return fmt.Errorf("ports[%d].protocol: unknown protocol %q", i, port.Protocol)
		}
	}
	return nil
}
