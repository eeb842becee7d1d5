package syncloop

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ports adds a container with ports.
func ports(ports ...v1.ContainerPort) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Ports: ports}) }
}

// initPorts adds an init container with ports.
func initPorts(policy *v1.ContainerRestartPolicy, ports ...v1.ContainerPort) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, v1.Container{RestartPolicy: policy, Ports: ports})
	}
}

func fromFile(pod *v1.Pod) {
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
}

func TestFreeHostPorts(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	web := v1.ContainerPort{ContainerPort: 80, HostPort: 8080}
	at := func(ip string, protocol v1.Protocol) v1.ContainerPort {
		return v1.ContainerPort{HostPort: 8080, HostIP: ip, Protocol: protocol}
	}
	for name, test := range map[string]struct {
		pod, other func(*v1.Pod)
		field      string // none: admitted
	}{
		"the same":                {ports(web), ports(web), "containers[0].ports[0]"},
		"another port":            {ports(web), ports(v1.ContainerPort{HostPort: 8081}), ""},
		"no host port":            {ports(v1.ContainerPort{ContainerPort: 80}), ports(v1.ContainerPort{ContainerPort: 80}), ""},
		"second port of both":     {ports(v1.ContainerPort{ContainerPort: 1}, web), ports(v1.ContainerPort{HostPort: 1}, web), "containers[0].ports[1]"},
		"protocols":               {ports(at("", v1.ProtocolUDP)), ports(web), ""},
		"TCP is the default":      {ports(at("", v1.ProtocolTCP)), ports(web), "containers[0].ports[0]"},
		"addresses":               {ports(at("10.0.0.1", "")), ports(at("10.0.0.2", "")), ""},
		"one address":             {ports(at("10.0.0.1", "")), ports(at("10.0.0.1", "")), "containers[0].ports[0]"},
		"all addresses, then one": {ports(at("0.0.0.0", "")), ports(at("10.0.0.1", "")), "containers[0].ports[0]"},
		"one address, then all":   {ports(at("10.0.0.1", "")), ports(at("::", "")), "containers[0].ports[0]"},
		"sidecar":                 {initPorts(&always, web), initPorts(&always, web), "initContainers[0].ports[0]"},
		"init container":          {initPorts(nil, web), ports(web), ""},
		"active init container":   {ports(web), initPorts(nil, web), ""},
	} {
		err := FreeHostPorts(nil).Admit(testPod("a", "a", test.pod), []*v1.Pod{testPod("b", "b", test.other)})
		if test.field == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, "NodePorts: spec."+test.field+".hostPort: port 8080/", name)
		require.ErrorContains(t, err, " of the node is used by pod ns/b (b)", name)
		require.ErrorAs(t, err, new(*Rejection), name)
	}
}

// A pod waits for a port of a leaving pod.
func TestFreeHostPortsOfLeavingPods(t *testing.T) {
	web := ports(v1.ContainerPort{HostPort: 80})
	pod, staying, leaving := testPod("a", "a", web), testPod("b", "b", web), testPod("c", "c", web)
	desired := &Desired{}
	desired.Set(staying)
	admitter, why := FreeHostPorts(desired), (*Rejection)(nil)
	err := admitter.Admit(pod, []*v1.Pod{leaving})
	require.ErrorContains(t, err, "used by pod ns/c")
	require.NotErrorAs(t, err, &why)
	require.ErrorAs(t, admitter.Admit(pod, []*v1.Pod{leaving, staying}), &why)
	now := metav1.Now()
	staying.DeletionTimestamp = &now
	require.NotErrorAs(t, admitter.Admit(pod, []*v1.Pod{leaving, staying}), &why)
	require.NoError(t, admitter.Admit(staying, []*v1.Pod{staying}), "a pod does not conflict with itself")

	// A newer version of a static pod does not wait for the port of the older one.
	require.NoError(t, admitter.Admit(testPod("c", "c2", web, fromFile), []*v1.Pod{leaving}))
	require.Error(t, admitter.Admit(testPod("c", "c2", web), []*v1.Pod{leaving}), "pods from the API server are rejected")
}

// Of two static pods with one host port the second is rejected and the first continues, also after
// a restart of the agent that adds them in another order.
func TestTwoStaticPodsWithOnePort(t *testing.T) {
	web := ports(v1.ContainerPort{HostPort: 80})
	first, second := testPod("z", "1", web, fromFile), testPod("a", "2", web, fromFile)
	phases := map[string]v1.PodPhase{}
	start := func() (*DefaultHandler, *fakeWorkers) {
		return newTestHandler(t, func(cfg *HandlerConfig) {
			cfg.Desired = &Desired{}
			cfg.Admit = FreeHostPorts(cfg.Desired)
			cfg.Phase = func(pod *v1.Pod) v1.PodPhase { return phases[pod.Name] }
			cfg.OnReject = func(pod *v1.Pod, why Rejection) { phases[pod.Name] = v1.PodFailed }
		})
	}
	h, w := start()
	h.HandlePodAdditions(t.Context(), []*v1.Pod{first})
	h.HandlePodAdditions(t.Context(), []*v1.Pod{second})
	require.Equal(t, []string{"create 1"}, w.take())
	refused := h.Unadmitted()
	require.Len(t, refused, 1)
	require.EqualError(t, refused[0].Err, "NodePorts: spec.containers[0].ports[0].hostPort: port 80/TCP of the node is used by pod ns/z (1)")
	require.Equal(t, v1.PodFailed, phases["a"])

	h, w = start()
	h.HandlePodAdditions(t.Context(), []*v1.Pod{second, first})
	require.Contains(t, w.take(), "create 1")
	require.NotContains(t, h.Unadmitted(), first)
}
