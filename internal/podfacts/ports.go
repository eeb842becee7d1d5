package podfacts

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Port returns the port of a container's handler: a number, the name of one of the container's
// own ports, or a number as text. A name that is no port of the container may be a number.
func Port(container *v1.Container, port intstr.IntOrString) (int, error) {
	number := port.IntValue()
	if port.Type == intstr.String && port.StrVal != "" {
		for _, p := range container.Ports {
			if p.Name == port.StrVal {
				number = int(p.ContainerPort)
				break
			}
		}
	}
	if number < 1 || number > 65535 {
		return 0, fmt.Errorf("port %q is neither a number from 1 to 65535 nor the name of a port of the container", port.String())
	}
	return number, nil
}
