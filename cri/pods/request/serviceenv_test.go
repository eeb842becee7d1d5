package request

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func service(namespace, name, ip string, ports ...v1.ServicePort) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1.ServiceSpec{ClusterIP: ip, Ports: ports}}
}

// 6.4, service variables.
func TestServiceEnv(t *testing.T) {
	got := ServiceEnv([]*v1.Service{
		service("shop", "my-db", "fd00::9", v1.ServicePort{Name: "main", Port: 53, Protocol: v1.ProtocolUDP}, v1.ServicePort{Name: "a-b", Port: 54}),
		service("shop", "headless", v1.ClusterIPNone, v1.ServicePort{Port: 1}), service("shop", "external", "", v1.ServicePort{Port: 1}), service("shop", "portless", "10.0.0.1"),
	})
	var lines []string
	for _, v := range got {
		lines = append(lines, v.Name+"="+v.Value)
	}
	require.Equal(t, []string{
		"MY_DB_SERVICE_HOST=fd00::9", "MY_DB_SERVICE_PORT=53", "MY_DB_SERVICE_PORT_MAIN=53", "MY_DB_SERVICE_PORT_A_B=54",
		"MY_DB_PORT=udp://[fd00::9]:53", "MY_DB_PORT_53_UDP=udp://[fd00::9]:53", "MY_DB_PORT_53_UDP_PROTO=udp", "MY_DB_PORT_53_UDP_PORT=53", "MY_DB_PORT_53_UDP_ADDR=fd00::9",
		"MY_DB_PORT_54_TCP=tcp://[fd00::9]:54", "MY_DB_PORT_54_TCP_PROTO=tcp", "MY_DB_PORT_54_TCP_PORT=54", "MY_DB_PORT_54_TCP_ADDR=fd00::9",
	}, lines)
}

func TestVisibleServices(t *testing.T) {
	h, m := withObjects(t)
	port := v1.ServicePort{Port: 1}
	m.SetServices(service("default", "kubernetes", "10.96.0.1", port), service("default", "other", "10.96.0.2", port),
		service("shop", "own", "10.96.0.3", port), service("else", "far", "10.96.0.4", port))
	hosts := func(pod *v1.Pod) string {
		env, err := h.envOf(pod, &v1.Container{})
		require.NoError(t, err)
		var out []string
		for _, line := range env {
			if strings.Contains(line, "_SERVICE_HOST") {
				out = append(out, line)
			}
		}
		return strings.Join(out, " ")
	}
	pod := testPod("a")
	require.Equal(t, "KUBERNETES_SERVICE_HOST=10.96.0.1 OWN_SERVICE_HOST=10.96.0.3", hosts(pod))
	pod.Spec.EnableServiceLinks = ptr(false)
	require.Equal(t, "KUBERNETES_SERVICE_HOST=10.96.0.1", hosts(pod))
	pod.Namespace = "default"
	require.Equal(t, "KUBERNETES_SERVICE_HOST=10.96.0.1", hosts(pod))
	pod.Spec.EnableServiceLinks = ptr(true)
	require.Equal(t, "KUBERNETES_SERVICE_HOST=10.96.0.1 OTHER_SERVICE_HOST=10.96.0.2", hosts(pod))
	m.SetServices(service("default", "kubernetes", "10.96.0.1", port), service("shop", "kubernetes", "10.96.0.9", port))
	require.Equal(t, "KUBERNETES_SERVICE_HOST=10.96.0.9", hosts(testPod("a")), "the namespace's own wins")
	for why, own := range map[string]*v1.Service{
		"headless": service("shop", "kubernetes", v1.ClusterIPNone, port), "external": service("shop", "kubernetes", "", port),
		"without a port": service("shop", "kubernetes", "10.96.0.9"),
	} {
		m.SetServices(service("default", "kubernetes", "10.96.0.1", port), own)
		require.Equal(t, "KUBERNETES_SERVICE_HOST=10.96.0.1", hosts(testPod("a")), "not if it is %s", why)
	}
	var many []*v1.Service
	for _, name := range strings.Split("h c f a g b e d", " ") {
		many = append(many, service("shop", name, "10.96.0.1", port))
	}
	m.SetServices(many...)
	require.Equal(t, "ABCDEFGH", strings.NewReplacer("_SERVICE_HOST=10.96.0.1", "", " ", "").Replace(hosts(testPod("a"))), "sorted by name")

	m.ForgetServices()
	_, err := h.envOf(testPod("a"), &v1.Container{})
	require.ErrorIs(t, err, ErrNotSynced)
	static := testPod("a")
	static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	require.Empty(t, hosts(static), "a static pod does not wait")
}

// lists answers for one namespace only.
type lists struct{ namespace string }

func (l lists) Services(_ context.Context, namespace string) ([]*v1.Service, error) {
	if namespace != l.namespace {
		return nil, errors.New("not " + namespace)
	}
	return nil, nil
}

// Both namespaces have to be known.
func TestServicesOfOneNamespace(t *testing.T) {
	h, _ := withObjects(t)
	for _, namespace := range []string{"shop", "default"} {
		h.cfg.Services = lists{namespace}
		h.restart()
		_, err := h.envOf(testPod("a"), &v1.Container{})
		require.ErrorContains(t, err, "cannot construct envvars: not ")
		static := testPod("a")
		static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		_, err = h.envOf(static, &v1.Container{})
		require.ErrorContains(t, err, "cannot construct envvars: not ", "a static pod does not wait, but fails as others do")
	}
}
