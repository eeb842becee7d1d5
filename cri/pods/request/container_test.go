package request

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/labels"
)

// An error for bad input names the field.
func TestContainerBadInput(t *testing.T) {
	h := newHarness(t)
	pod := testPod("a")
	for want, in := range map[string]Instance{
		"Instance.Pod and":             {},
		"Instance.Container are":       {Pod: pod},
		"are required":                 {Container: &v1.Container{}},
		"Instance.RestartCount":        {Pod: pod, Container: &v1.Container{}, RestartCount: -1},
		"ports[1].hostPort: -1":        {Pod: pod, Container: &v1.Container{Ports: []v1.ContainerPort{{ContainerPort: 1}, {ContainerPort: 1, HostPort: -1}}}},
		"ports[0].containerPort: 0":    {Pod: pod, Container: &v1.Container{Ports: []v1.ContainerPort{{}}}},
		"lifecycle.stopSignal":         {Pod: pod, Container: &v1.Container{Lifecycle: &v1.Lifecycle{StopSignal: new(v1.Signal("SIGNOPE"))}}},
		"env X: fieldRef: unsupported": {Pod: pod, Container: &v1.Container{Env: []v1.EnvVar{from(v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "x"}})}}},
		"env X: resourceFieldRef":      {Pod: pod, Container: &v1.Container{Env: []v1.EnvVar{from(v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "x"}})}}},
	} {
		_, err := h.builder().Container(t.Context(), in)
		require.ErrorContains(t, err, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := h.builder().Container(ctx, Instance{Pod: pod, Container: &pod.Spec.Containers[0]})
	require.ErrorIs(t, err, context.Canceled)
}

// A sandbox gets an annotation of 1 MiB in full. A variable cannot have that size, because no
// process starts with it.
func TestLargeAnnotation(t *testing.T) {
	h := newHarness(t)
	pod := testPod("a")
	large := strings.Repeat("x", 1<<20)
	pod.Annotations = map[string]string{"large": large}
	sandbox, err := h.builder().Sandbox(pod, 0)
	require.NoError(t, err)
	require.Equal(t, large, sandbox.Annotations["large"])
	pod.Spec.Containers[0].Env = []v1.EnvVar{from(v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.annotations['large']"}})}
	_, err = h.envOf(pod, &pod.Spec.Containers[0])
	require.ErrorContains(t, err, "spec.containers[0].env[0].valueFrom: expands to more than 131070 bytes")
	pod.Annotations["large"] = large[:131069]
	env, err := h.envOf(pod, &pod.Spec.Containers[0])
	require.NoError(t, err)
	require.Equal(t, "X="+pod.Annotations["large"], env[0])
}

func TestNewRefuses(t *testing.T) {
	for field, cfg := range map[string]Config{
		"LogRoot":                         {LogRoot: "relative"},
		"Node.MemoryCapacity":             {Node: Node{MemoryCapacity: -1}},
		"Node.SwapCapacity":               {Node: Node{SwapCapacity: -1}},
		"Node.CPUQuotaPeriod":             {Node: Node{CPUQuotaPeriod: 1}},
		"Node.MemoryQoS.ThrottlingFactor": {Node: Node{MemoryQoS: MemoryQoS{ThrottlingFactor: 1.1}}},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, "request: Config."+field)
	}
	for period, good := range map[time.Duration]bool{time.Millisecond: true, time.Second: true, time.Second + 1: false} {
		_, err := New(Config{Node: Node{CPUQuotaPeriod: period}})
		require.Equal(t, good, err == nil, period)
	}
	for factor, good := range map[float64]bool{-0.1: false, 0.1: true, 1: true} {
		_, err := New(Config{Node: Node{MemoryQoS: MemoryQoS{ThrottlingFactor: factor}}})
		require.Equal(t, good, err == nil, factor)
	}
}

// The zero Config reads the node's files from their standard paths.
func TestZeroConfigFiles(t *testing.T) {
	var read []string
	b, err := New(Config{readFile: func(path string) ([]byte, error) {
		read = append(read, path)
		return []byte("nameserver 192.0.2.1\n"), nil
	}})
	require.NoError(t, err)
	pod := testPod("a")
	pod.Spec.DNSPolicy = v1.DNSDefault
	sandbox, err := b.Sandbox(pod, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"192.0.2.1"}, sandbox.DnsConfig.Servers)
	require.Equal(t, "/var/log/pods/shop_web_0d1e", sandbox.LogDirectory)
	pod.Spec.HostNetwork = true
	_, err = b.Hosts(pod, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"/etc/resolv.conf", "/etc/hosts"}, read)
	c := &pod.Spec.Containers[0]
	c.SecurityContext = &v1.SecurityContext{SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: new("a/b.json")}}
	c.Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m")}
	config, err := b.Container(t.Context(), Instance{Pod: pod, Container: c})
	require.NoError(t, err)
	require.Equal(t, "/var/lib/kubelet/seccomp/a/b.json", config.Linux.SecurityContext.Seccomp.LocalhostRef)
	require.EqualValues(t, 100_000, config.Linux.Resources.CpuPeriod)
	require.EqualValues(t, 50_000, config.Linux.Resources.CpuQuota)
}

func TestLabels(t *testing.T) {
	pod := testPod("a")
	pod.Labels[labels.PodUID], pod.Labels[cri.LabelOwner] = "forged", "forged"
	b, err := New(Config{Owner: cri.Owner{Unlabelled: true}})
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"app": "web", "io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.uid": "0d1e",
	}, b.sandboxLabels(pod))
	require.Equal(t, map[string]string{
		"io.kubernetes.container.name": "a", "io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.uid": "0d1e",
	}, b.containerLabels(pod, &pod.Spec.Containers[0]))
	require.Equal(t, "forged", pod.Labels[labels.PodUID], "the pod is not changed")
}

func TestAnnotations(t *testing.T) {
	pod := testPod("a")
	pod.DeletionGracePeriodSeconds = new(int64(47))
	pod.Spec.TerminationGracePeriodSeconds = new(int64(46))
	c := &pod.Spec.Containers[0]
	c.Ports = []v1.ContainerPort{{ContainerPort: 80, Protocol: v1.ProtocolTCP}}
	c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 3}}}
	devices := map[string]string{"example.com/gpu": "1", labels.AnnotationHash: "forged"}
	got := containerAnnotations(Instance{Pod: pod, Container: c, RestartCount: 45}, devices)
	require.Equal(t, map[string]string{
		"example.com/gpu":                                  "1",
		"io.kubernetes.container.hash":                     "5264866e",
		"io.kubernetes.container.restartCount":             "45",
		"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
		"io.kubernetes.container.terminationMessagePolicy": "File",
		"io.kubernetes.pod.deletionGracePeriod":            "47",
		"io.kubernetes.pod.terminationGracePeriod":         "46",
		"io.kubernetes.container.preStopHandler":           `{"sleep":{"seconds":3}}`,
		"io.kubernetes.container.ports":                    `[{"containerPort":80,"protocol":"TCP"}]`,
	}, got)
	require.Equal(t, "forged", devices[labels.AnnotationHash], "the plugin's map is not changed")
	got = containerAnnotations(Instance{Pod: &v1.Pod{}, Container: &v1.Container{}}, nil)
	require.Len(t, got, 4, "what is not set is not written")
}

func TestStopSignal(t *testing.T) {
	for name, want := range map[v1.Signal]runtimeapi.Signal{
		v1.SIGUSR1:         runtimeapi.Signal_SIGNAL_SIGUSR1,
		v1.SIGTERM:         runtimeapi.Signal_SIGNAL_SIGTERM,
		v1.SIGRTMIN:        runtimeapi.Signal_SIGNAL_SIGRTMIN,
		v1.SIGRTMINPLUS3:   runtimeapi.Signal_SIGNAL_SIGRTMINPLUS3,
		v1.SIGRTMAXMINUS14: runtimeapi.Signal_SIGNAL_SIGRTMAXMINUS14,
	} {
		got, ok := stopSignal(name)
		require.True(t, ok, name)
		require.Equal(t, want, got, name)
	}
	for _, name := range []v1.Signal{"", "SIGNONE", "TERM", "sigterm", "RUNTIME_DEFAULT", "SIGNAL_SIGTERM", "15"} {
		got, ok := stopSignal(name)
		require.False(t, ok, name)
		require.Zero(t, got, name)
	}
}
