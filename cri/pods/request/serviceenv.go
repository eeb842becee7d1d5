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

// masterService is what every pod is told of, wherever it is.
const masterService = "kubernetes"

// serviceEnv are the variables that tell a pod of the services of its namespace,
// if it wants them, and of the API server. They are sorted by service.
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

// services lists a namespace. A static pod does not wait for services: they may
// be its own doing.
func (b *Builder) services(ctx context.Context, pod *v1.Pod, namespace string) ([]*v1.Service, error) {
	list, err := b.cfg.Services.Services(ctx, namespace)
	if err != nil && (!errors.Is(err, ErrNotSynced) || !podfacts.IsStatic(pod)) {
		return nil, fmt.Errorf("cannot construct envvars: %w", err)
	}
	return list, nil
}

// visibleServices are those that a pod is told of: with links all of its
// namespace, and the API server's unless its namespace has one of that name.
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

// ServiceEnv are the variables by which containers are told of services, in the
// order of the services: NAME_SERVICE_HOST, NAME_SERVICE_PORT and the ones that
// Docker's links had. Services without a cluster IP or a port have none. It is
// pure.
func ServiceEnv(services []*v1.Service) []v1.EnvVar {
	out := make([]v1.EnvVar, 0, 8*len(services)) // of one port and its name
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
