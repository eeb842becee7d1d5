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
	pod.Spec.EnableServiceLinks = new(false)
	require.Equal(t, "KUBERNETES_SERVICE_HOST=10.96.0.1", hosts(pod))
	pod.Namespace = "default"
	require.Equal(t, "KUBERNETES_SERVICE_HOST=10.96.0.1", hosts(pod))
	pod.Spec.EnableServiceLinks = new(true)
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

	h.cfg.Services = lists{err: ErrNotSynced}
	_, err := h.envOf(testPod("a"), &v1.Container{})
	require.ErrorIs(t, err, ErrNotSynced)
	static := testPod("a")
	static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	require.Empty(t, hosts(static), "a static pod does not wait")
}

// lists is a Services that has one namespace and fails for others.
type lists struct {
	namespace string
	err       error // for other namespaces
}

func (l lists) Services(_ context.Context, namespace string) ([]*v1.Service, error) {
	if namespace != l.namespace {
		return nil, l.err
	}
	return nil, nil
}

// A container starts only if the services of both namespaces are available.
func TestServicesOfOneNamespace(t *testing.T) {
	h, _ := withObjects(t)
	for _, namespace := range []string{"shop", "default"} {
		h.cfg.Services = lists{namespace, errors.New("not this one")}
		_, err := h.envOf(testPod("a"), &v1.Container{})
		require.ErrorContains(t, err, "cannot construct envvars: not ")
		static := testPod("a")
		static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		_, err = h.envOf(static, &v1.Container{})
		require.ErrorContains(t, err, "cannot construct envvars: not ", "a static pod does not wait, but fails as others do")
	}
}
