package syncloop

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// FreeHostPorts returns an Admitter that gives each host port to one pod only. It rejects a pod
// (NodePorts) that requests a port of an active pod; the message names the field, the port and the
// active pod. If all pods with the port are leaving, the pod waits instead. A pod is
// leaving if it is being deleted or is absent from desired. With a nil desired, only deletion
// counts. A static pod does not conflict with a pod of the same name: the worker of the new pod
// waits for the end of the old one.
func FreeHostPorts(desired *Desired) Admitter {
	leaving := func(pod *v1.Pod) bool {
		return pod.DeletionTimestamp != nil || desired != nil && desired.Get(pod.UID) == nil
	}
	return AdmitterFunc(func(pod *v1.Pod, active []*v1.Pod) error {
		var conflicts, pending []error
		wanted := hostPorts(pod)
		for _, other := range active {
			if other.UID == pod.UID || podfacts.IsStatic(pod) && podfacts.FullName(other) == podfacts.FullName(pod) {
				continue
			}
			err := portConflict(wanted, other)
			switch {
			case err == nil:
			case leaving(other):
				pending = append(pending, err)
			default:
				conflicts = append(conflicts, err)
			}
		}
		if len(conflicts) > 0 {
			return Reject("NodePorts", "%v", errors.Join(conflicts...))
		}
		return errors.Join(pending...)
	})
}

// hostPort is a requested port of the node with the field of the pod's spec.
type hostPort struct {
	field    string
	protocol v1.Protocol
	ip       netip.Addr // unspecified or invalid: all addresses
	port     int32
}

func hostPorts(pod *v1.Pod) (ports []hostPort) {
	add := func(list string, containers []v1.Container, counts func(*v1.Container) bool) {
		for i := range containers {
			for j, p := range containers[i].Ports {
				if p.HostPort <= 0 || !counts(&containers[i]) {
					continue
				}
				ip, _ := netip.ParseAddr(p.HostIP)
				if p.Protocol == "" {
					p.Protocol = v1.ProtocolTCP
				}
				ports = append(ports, hostPort{fmt.Sprintf("spec.%s[%d].ports[%d].hostPort", list, i, j), p.Protocol, ip, p.HostPort})
			}
		}
	}
	add("initContainers", pod.Spec.InitContainers, podfacts.IsSidecar)
	add("containers", pod.Spec.Containers, func(*v1.Container) bool { return true })
	return ports
}

func (p hostPort) clashes(q hostPort) bool {
	all := func(ip netip.Addr) bool { return !ip.IsValid() || ip.IsUnspecified() }
	return p.port == q.port && p.protocol == q.protocol && (p.ip == q.ip || all(p.ip) || all(q.ip))
}

func portConflict(wanted []hostPort, other *v1.Pod) error {
	used := hostPorts(other)
	for _, p := range wanted {
		if i := slices.IndexFunc(used, p.clashes); i >= 0 {
			return fmt.Errorf("%s: port %d/%s of the node is used by pod %s/%s (%s)", p.field, p.port, p.protocol, other.Namespace, other.Name, other.UID)
		}
	}
	return nil
}
