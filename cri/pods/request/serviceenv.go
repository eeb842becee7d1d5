package request

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// masterService is the service that every pod gets, in each namespace.
const masterService = "kubernetes"

// serviceEnv returns the variables for the services of the pod's namespace, if the pod enables
// them, and for the API server, sorted by service.
func (b *Builder) serviceEnv(ctx context.Context, pod *v1.Pod) ([]v1.EnvVar, error) {
	if b.cfg.Services == nil {
		return nil, nil
	}
	own, err := b.services(ctx, pod, pod.Namespace)
	if err != nil {
		return nil, err
	}
	master := own
	if pod.Namespace != v1.NamespaceDefault {
		if master, err = b.services(ctx, pod, v1.NamespaceDefault); err != nil {
			return nil, err
		}
	}
	// An undefaulted pod has nil here; the API's default is true.
	links := pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks
	return ServiceEnv(visibleServices(own, master, links)), nil
}

// services lists a namespace. A static pod does not wait for the services to be read, because
// they may depend on it.
func (b *Builder) services(ctx context.Context, pod *v1.Pod, namespace string) ([]*v1.Service, error) {
	list, err := b.cfg.Services.Services(ctx, namespace)
	if err != nil && (!errors.Is(err, ErrNotSynced) || !podfacts.IsStatic(pod)) {
		return nil, fmt.Errorf("cannot construct envvars: %w", err)
	}
	return list, nil
}

// visibleServices returns the services that a pod gets variables for: with links all of its
// namespace; and the API server's, unless the namespace has a service of that name.
func visibleServices(own, master []*v1.Service, links bool) []*v1.Service {
	byName := map[string]*v1.Service{}
	add := func(list []*v1.Service, wanted func(*v1.Service) bool) {
		for _, s := range list {
			if s.Spec.ClusterIP != "" && s.Spec.ClusterIP != v1.ClusterIPNone && len(s.Spec.Ports) > 0 && wanted(s) {
				byName[s.Name] = s
			}
		}
	}
	add(master, func(s *v1.Service) bool { return s.Name == masterService })
	if links {
		add(own, func(*v1.Service) bool { return true })
	}
	out := make([]*v1.Service, 0, len(byName))
	for _, s := range byName {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *v1.Service) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// ServiceEnv returns the variables for services, in the order of the services: NAME_SERVICE_HOST,
// NAME_SERVICE_PORT, and the variables of Docker links. Services without a cluster IP or port are
// skipped. It is pure.
func ServiceEnv(services []*v1.Service) []v1.EnvVar {
	out := make([]v1.EnvVar, 0, 8*len(services)) // capacity for services with one named port
	add := func(name, value string) { out = append(out, v1.EnvVar{Name: name, Value: value}) }
	for _, s := range services {
		ip := s.Spec.ClusterIP
		if ip == "" || ip == v1.ClusterIPNone || len(s.Spec.Ports) == 0 {
			continue
		}
		prefix := envName(s.Name)
		add(prefix+"_SERVICE_HOST", ip)
		add(prefix+"_SERVICE_PORT", portText(s.Spec.Ports[0]))
		for _, port := range s.Spec.Ports {
			if port.Name != "" {
				add(prefix+"_SERVICE_PORT_"+envName(port.Name), portText(port))
			}
		}
		for i, port := range s.Spec.Ports {
			protocol := strings.ToLower(string(port.Protocol))
			if protocol == "" {
				protocol = "tcp"
			}
			url := protocol + "://" + net.JoinHostPort(ip, portText(port))
			if i == 0 {
				add(prefix+"_PORT", url)
			}
			name := prefix + "_PORT_" + portText(port) + "_" + strings.ToUpper(protocol)
			add(name, url)
			add(name+"_PROTO", protocol)
			add(name+"_PORT", portText(port))
			add(name+"_ADDR", ip)
		}
	}
	return out
}

func portText(port v1.ServicePort) string { return strconv.Itoa(int(port.Port)) }

func envName(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }
