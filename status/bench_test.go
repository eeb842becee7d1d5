package status

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// steady returns a pod of three containers without pending changes and with every kind of detail.
func steady() Input {
	pod := podOf(v1.RestartPolicyAlways, "s:proxy", "app", "log")
	value := func(v int64) *int64 { return &v }
	seen := observe()
	seen.IPs = []string{"10.0.0.7", "fd00::7"}
	in := Input{Pod: pod, Observed: seen, HostIPs: []string{"192.0.2.1", "fd00::1"}, Probes: probe.Results{}, Now: now}
	for _, c := range []*v1.Container{&pod.Spec.InitContainers[0], &pod.Spec.Containers[0], &pod.Spec.Containers[1]} {
		c.Resources = v1.ResourceRequirements{Requests: list("100m", "128Mi"), Limits: list("200m", "128Mi")}
		c.StartupProbe, c.ReadinessProbe = &v1.Probe{}, &v1.Probe{}
		c.VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}}
		instance := running(c.Name, attempt(1), func(c *observed.Container) {
			c.Resources = &observed.Resources{MilliCPURequest: value(100), MilliCPULimit: value(200), MemoryLimit: value(128 << 20)}
			c.User = &observed.User{UID: 1, GID: 1, SupplementalGroups: []int64{1, 2}}
		})
		seen.Containers = append(seen.Containers, instance)
		for _, typ := range []probe.Type{probe.Startup, probe.Readiness} {
			in.Probes = append(in.Probes, probe.Stored{Container: c.Name, ContainerID: instance.ID.String(), Type: typ, Result: probe.Success})
		}
	}
	for _, c := range []v1.Container{pod.Spec.InitContainers[0], pod.Spec.Containers[0], pod.Spec.Containers[1]} {
		seen.Containers = append(seen.Containers, exited(c.Name, 1, id("old-"+c.Name)))
	}
	pod.Status.Conditions = []v1.PodCondition{{Type: "example.com/gate", Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(before)}}
	first, _ := Compute(in)
	in.Previous = &first.Status
	return in
}

// BenchmarkComputeNothingChanged measures the usual case: a sync without a change.
func BenchmarkComputeNothingChanged(b *testing.B) {
	in := steady()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = Compute(in)
	}
}

func TestAllocationsOfCompute(t *testing.T) {
	in := steady()
	r := computed(t, in)
	require.Equal(t, v1.PodRunning, r.Status.Phase)
	require.Equal(t, "True", cond(r.Status, v1.PodReady))
	require.True(t, equality.Semantic.DeepEqual(*in.Previous, r.Status))
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = Compute(in) }), 46.0)
	normal := podstatus.Normalize(in.Pod, r.Status)
	require.Zero(t, testing.AllocsPerRun(100, func() { podstatus.Normalize(in.Pod, normal) }), "a normal status is not copied")
}
