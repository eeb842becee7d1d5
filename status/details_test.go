package status

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/probe"
)

func quantities(list v1.ResourceList) string {
	out := ""
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if q, ok := list[name]; ok {
			out += q.String()
		}
		out += "/"
	}
	return out
}

func list(cpu, memory string) v1.ResourceList {
	out := v1.ResourceList{}
	if cpu != "" {
		out[v1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		out[v1.ResourceMemory] = resource.MustParse(memory)
	}
	return out
}

func TestResources(t *testing.T) {
	value := func(v int64) *int64 { return &v }
	granted := v1.ResourceRequirements{Requests: list("100m", "128M"), Limits: list("200m", "256M")}
	small := v1.ResourceRequirements{Requests: list("1m", ""), Limits: list("5m", "")}
	atFloor := v1.ResourceRequirements{Requests: list("2m", ""), Limits: list("10m", "")}
	for _, tc := range []struct {
		name             string
		granted          v1.ResourceRequirements
		state            pleg.State
		reported         *pleg.ContainerResources
		requests, limits string
	}{
		{"not running", granted, pleg.StateExited, &pleg.ContainerResources{MilliCPULimit: value(1)}, "100m/128M/", "200m/256M/"},
		{"nothing reported", granted, pleg.StateRunning, nil, "100m/128M/", "200m/256M/"},
		{"all reported", granted, pleg.StateRunning, &pleg.ContainerResources{MilliCPURequest: value(50), MilliCPULimit: value(150), MemoryLimit: value(1 << 20)}, "50m/128M/", "150m/1Mi/"},
		{"the same in another notation", granted, pleg.StateRunning, &pleg.ContainerResources{MemoryLimit: value(256000000)}, "100m/128M/", "200m/256M/"},
		{"both below the floor", small, pleg.StateRunning, &pleg.ContainerResources{MilliCPURequest: value(2), MilliCPULimit: value(10)}, "1m//", "5m//"},
		{"one above the floor", small, pleg.StateRunning, &pleg.ContainerResources{MilliCPURequest: value(3), MilliCPULimit: value(11)}, "3m//", "11m//"},
		{"at the floor", atFloor, pleg.StateRunning, &pleg.ContainerResources{MilliCPURequest: value(1), MilliCPULimit: value(5)}, "2m//", "10m//"},
		{"only the reported one below the floor", granted, pleg.StateRunning, &pleg.ContainerResources{MilliCPURequest: value(2), MilliCPULimit: value(10)}, "2m/128M/", "10m/256M/"},
		{"nothing granted", v1.ResourceRequirements{}, pleg.StateRunning, &pleg.ContainerResources{MilliCPURequest: value(2), MilliCPULimit: value(99)}, "//", "//"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := Input{Pod: podOf(v1.RestartPolicyAlways, "c"), Allocated: map[string]v1.ResourceRequirements{"c": tc.granted}}
			in.Observed = observe(instance("c", tc.state, []option{func(c *pleg.ContainerStatus) { c.Resources = tc.reported }}))
			c := compute(t, in).ContainerStatuses[0]
			require.Equal(t, tc.requests, quantities(c.Resources.Requests))
			require.Equal(t, tc.limits, quantities(c.Resources.Limits))
			require.Equal(t, quantities(tc.granted.Requests), quantities(c.AllocatedResources))
		})
	}
}

// A quantity beyond 64 bits, which points to its digits, is nobody else's either.
func TestLargeResourcesAreCopied(t *testing.T) {
	huge := v1.ResourceList{"example.com/x": resource.MustParse("12345678901234567890123")}
	in := Input{Pod: podOf(v1.RestartPolicyAlways, "c"), Observed: observe(running("c"))}
	in.Pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: huge, Limits: huge}
	c := compute(t, in).ContainerStatuses[0]
	for _, list := range []v1.ResourceList{c.AllocatedResources, c.Resources.Requests, c.Resources.Limits} {
		require.Equal(t, "12345678901234567890123", quantity(list, "example.com/x"))
		mine, theirs := list["example.com/x"], huge["example.com/x"]
		require.NotSame(t, theirs.AsDec(), mine.AsDec())
	}
}

func quantity(list v1.ResourceList, name v1.ResourceName) string {
	q := list[name]
	return q.String()
}

// What the runtime does not report stays as it was for the same instance.
func TestResourcesDuringResize(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "c")
	pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: list("", "1Mi"), Limits: list("", "1Mi")}
	previous := compute(t, Input{Pod: pod, Observed: observe(running("c"))})
	in := Input{Pod: pod, Previous: &previous, Observed: observe(running("c")),
		Allocated: map[string]v1.ResourceRequirements{"c": {Requests: list("", "2Mi"), Limits: list("", "2Mi")}}}
	c := compute(t, in).ContainerStatuses[0]
	require.Equal(t, "/2Mi/", quantities(c.Resources.Requests), "the runtime has no say in a request for memory")
	require.Equal(t, "/1Mi/", quantities(c.Resources.Limits))
	require.Equal(t, "/2Mi/", quantities(c.AllocatedResources))
	in.Observed = observe(running("c", id("c-1")))
	c = compute(t, in).ContainerStatuses[0]
	require.Equal(t, "/2Mi/", quantities(c.Resources.Limits))
	previous = compute(t, Input{Pod: pod, Observed: observe(created("c"))})
	in.Observed = observe(running("c"))
	c = compute(t, in).ContainerStatuses[0]
	require.Equal(t, "/2Mi/", quantities(c.Resources.Limits), "nothing was reported before it ran")
}

// 7.4 and 7.5: unknown is never success, and what is known of another instance
// says nothing.
func TestProbes(t *testing.T) {
	yes, no := true, false
	old := func(id string, started *bool, ready bool) *v1.PodStatus {
		s := was("c", id, 0, wasRunning(), v1.ContainerState{})
		s.ContainerStatuses[0].Started, s.ContainerStatuses[0].Ready = started, ready
		return s
	}
	type probes = map[string]probed
	for _, tc := range []struct {
		name               string
		startup, readiness bool
		results            probes
		old                *v1.PodStatus
		started, ready     bool
	}{
		{"no probes", false, false, probes{}, nil, true, true},
		{"nobody probes", true, true, nil, nil, true, true},
		{"startup unknown", true, false, probes{}, nil, false, false},
		{"startup failed", true, false, probes{"c": {Startup: probe.Failure}}, old("c-0", &yes, true), false, false},
		{"startup passed", true, false, probes{"c": {Startup: probe.Success}}, nil, true, true},
		{"startup passed before", true, false, probes{}, old("c-0", &yes, true), true, true},
		{"startup not passed before", true, false, probes{}, old("c-0", &no, false), false, false},
		{"T54 startup passed by another instance", true, false, probes{}, old("c-9", &yes, true), false, false},
		{"not started is not ready", true, true, probes{"c": {Readiness: probe.Success}}, nil, false, false},
		{"readiness unknown", false, true, probes{}, nil, true, false},
		{"readiness failed", false, true, probes{"c": {Readiness: probe.Failure}}, old("c-0", &yes, true), true, false},
		{"readiness passed", false, true, probes{"c": {Readiness: probe.Success}}, nil, true, true},
		{"T40 ready before", false, true, probes{}, old("c-0", &yes, true), true, true},
		{"T40 unready before", false, true, probes{}, old("c-0", &yes, false), true, false},
		{"ready by another instance", false, true, probes{}, old("c-9", &yes, true), true, false},
		{"both passed", true, true, probes{"c": {Startup: probe.Success, Readiness: probe.Success}}, nil, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := podOf(v1.RestartPolicyAlways, "c")
			if tc.startup {
				pod.Spec.Containers[0].StartupProbe = &v1.Probe{}
			}
			if tc.readiness {
				pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{}
			}
			in := Input{Pod: pod, Previous: tc.old, Observed: observe(running("c"))}
			in.Probes = results(in.Observed, tc.results)
			c := compute(t, in).ContainerStatuses[0]
			require.Equal(t, [2]bool{tc.started, tc.ready}, [2]bool{*c.Started, c.Ready})
			in.Observed = observe(exited("c", 0))
			c = compute(t, in).ContainerStatuses[0]
			require.Equal(t, [2]bool{}, [2]bool{*c.Started, c.Ready}, "what does not run is neither")
		})
	}
	inits := compute(t, Input{Pod: podOf(v1.RestartPolicyAlways, "i:a", "i:b", "i:d", "s:s", "c"), Observed: observe(exited("a", 0), exited("b", 1), running("d"), running("s"))})
	require.True(t, inits.InitContainerStatuses[0].Ready)
	require.False(t, inits.InitContainerStatuses[1].Ready)
	require.False(t, inits.InitContainerStatuses[2].Ready, "an init container is ready when it has succeeded")
	require.True(t, inits.InitContainerStatuses[3].Ready)
}

// Sorted, each once, also of a pod that ends when all of its containers were to restart.
func TestProbeNow(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "s:s", "b", "a", "c")
	for _, c := range []*v1.Container{&pod.Spec.InitContainers[0], &pod.Spec.Containers[0], &pod.Spec.Containers[1]} {
		c.ReadinessProbe = &v1.Probe{}
	}
	restartAllRule(&pod.Spec.Containers[2], 42)
	in := Input{Pod: pod, Probes: probe.Results{}, Observed: observe(running("s"), running("b"), running("a"), exited("c", 42))}
	require.Equal(t, []string{"a", "b", "s"}, computeAll(t, in).ProbeNow)
	in.Fail = &Reason{Reason: ReasonDeadlineExceeded}
	require.Equal(t, []string{"a", "b", "s"}, computeAll(t, in).ProbeNow)
}

// What is known of a container without an ID is not known to be of the same instance; what
// does not run is not ready, whoever said so; and what nobody looked at is still probed.
func TestProbesOfOddContainers(t *testing.T) {
	yes := true
	pod := podOf(v1.RestartPolicyAlways, "i:i", "c")
	pod.Spec.InitContainers[0].StartupProbe, pod.Spec.Containers[0].StartupProbe = &v1.Probe{}, &v1.Probe{}
	previous := func(id string, state v1.ContainerState) *v1.PodStatus {
		s := was("c", id, 0, state, v1.ContainerState{})
		s.ContainerStatuses[0].Started, s.ContainerStatuses[0].Ready = &yes, true
		return s
	}
	failed := probe.Results{{Container: "c", ContainerID: "fake://c-0", Type: probe.Startup, Result: probe.Failure}}
	for name, in := range map[string]Input{
		"without an ID": {Previous: previous("", wasRunning()), Observed: observe(running("c", id(""))), Probes: probe.Results{}},
		"ended, ready":  {Previous: previous("c-0", wasTerminated(1, "")), Observed: observe()},
		"unobserved":    {Previous: previous("c-0", wasRunning()), Probes: failed},
	} {
		in.Pod, in.Now = pod, now
		c := twice(t, in).Status.ContainerStatuses[0]
		require.Equal(t, [2]bool{}, [2]bool{*c.Started, c.Ready}, name)
	}
	s := compute(t, Input{Pod: pod, Probes: probe.Results{}, Observed: observe(running("i"))})
	require.True(t, *s.InitContainerStatuses[0].Started, "a plain init container is not probed")
}

func TestAddresses(t *testing.T) {
	ips := func(list ...string) (out []v1.PodIP) {
		for _, ip := range list {
			out = append(out, v1.PodIP{IP: ip})
		}
		return out
	}
	for _, tc := range []struct {
		name            string
		hostNetwork     bool
		terminal        bool
		hosts, observed []string
		old, want       []v1.PodIP
	}{
		{"one", false, false, nil, []string{"10.0.0.1"}, nil, ips("10.0.0.1")},
		{"canonical", false, false, nil, []string{"FD00:0:0::1"}, nil, ips("fd00::1")},
		{"node's family first", false, false, []string{"1.1.1.1"}, []string{"fd00::1", "10.0.0.1"}, nil, ips("10.0.0.1", "fd00::1")},
		{"v6 node", false, false, []string{"fd00::9", "1.1.1.1"}, []string{"10.0.0.1", "fd00::1"}, nil, ips("fd00::1", "10.0.0.1")},
		{"one per family", false, false, []string{"1.1.1.1"}, []string{"10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"}, nil, ips("10.0.0.1", "fd00::1")},
		{"rubbish", false, false, nil, []string{"rubbish", "10.0.0.1"}, nil, ips("10.0.0.1")},
		{"lost", false, false, nil, nil, ips("10.0.0.1"), nil},
		{"kept at the end", false, true, nil, nil, ips("10.0.0.1"), ips("10.0.0.1")},
		{"host network", true, false, []string{"1.1.1.1", "fd00::9"}, nil, nil, ips("1.1.1.1", "fd00::9")},
		{"host network stays", true, false, []string{"2.2.2.2"}, nil, ips("1.1.1.1"), ips("1.1.1.1")},
		{"host network, second family", true, false, []string{"2.2.2.2", "fd00::9"}, nil, ips("1.1.1.1"), ips("1.1.1.1", "fd00::9")},
		{"host network, no host", true, false, nil, nil, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := podOf(v1.RestartPolicyAlways, "c")
			pod.Spec.HostNetwork = tc.hostNetwork
			observed := observe(exited("c", 0))
			observed.IPs = tc.observed
			s := compute(t, Input{Pod: pod, HostIPs: tc.hosts, Observed: observed, Terminal: tc.terminal, Previous: &v1.PodStatus{PodIPs: tc.old}})
			require.Equal(t, tc.want, s.PodIPs)
			if len(tc.want) > 0 {
				require.Equal(t, tc.want[0].IP, s.PodIP)
			} else {
				require.Empty(t, s.PodIP)
			}
			require.Len(t, s.HostIPs, len(tc.hosts))
		})
	}
}

func TestStaticPodKeepsItsAddressAtTheEnd(t *testing.T) {
	s := compute(t, Input{Pod: static(podOf(v1.RestartPolicyAlways, "c")), Terminal: true, Previous: &v1.PodStatus{PodIPs: []v1.PodIP{{IP: "10.0.0.1"}}}})
	require.False(t, s.Phase == v1.PodFailed || s.Phase == v1.PodSucceeded)
	require.Equal(t, "10.0.0.1", s.PodIP)
}

func TestHostIPs(t *testing.T) {
	in := Input{Pod: podOf(v1.RestartPolicyAlways, "c"), Previous: &v1.PodStatus{HostIP: "1.1.1.1", HostIPs: []v1.HostIP{{IP: "1.1.1.1"}}}}
	r := computeAll(t, in)
	require.Equal(t, "1.1.1.1", r.Status.HostIP, "unknown now, known before")
	require.False(t, r.HostIPFamilyChanged)
	in.HostIPs = []string{"2.2.2.2"}
	require.False(t, computeAll(t, in).HostIPFamilyChanged)
	in.HostIPs, in.Now, in.Observed = []string{"fd00::1", "2.2.2.2"}, now, &pleg.PodStatus{}
	r = Compute(in)
	require.True(t, r.HostIPFamilyChanged)
	require.Equal(t, "fd00::1", r.Status.HostIP)
	require.Equal(t, []v1.HostIP{{IP: "fd00::1"}, {IP: "2.2.2.2"}}, r.Status.HostIPs)
}

func TestQOS(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "c")
	require.Equal(t, v1.PodQOSBestEffort, compute(t, Input{Pod: pod}).QOSClass)
	pod.Status.QOSClass = v1.PodQOSGuaranteed
	require.Equal(t, v1.PodQOSGuaranteed, compute(t, Input{Pod: pod}).QOSClass)
	require.Equal(t, v1.PodQOSBurstable, compute(t, Input{Pod: pod, Previous: &v1.PodStatus{QOSClass: v1.PodQOSBurstable}}).QOSClass)
}
