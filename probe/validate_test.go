package probe

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func execProbe() *v1.Probe {
	return &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}}
}

func TestValidate(t *testing.T) {
	type change = func(p *v1.Probe)
	http := func(more func(*v1.HTTPGetAction)) change {
		return func(p *v1.Probe) {
			p.Exec, p.HTTPGet = nil, &v1.HTTPGetAction{Port: intstr.FromInt32(80)}
			more(p.HTTPGet)
		}
	}
	for _, tc := range []struct {
		name   string
		change change
		// want follows "spec.containers[1].livenessProbe" in the error; "" means no error.
		want string
	}{
		{"good", func(*v1.Probe) {}, ""},
		{"delay", func(p *v1.Probe) { p.InitialDelaySeconds = -1 }, ".initialDelaySeconds: -1: must not be negative"},
		{"timeout", func(p *v1.Probe) { p.TimeoutSeconds = -1 }, ".timeoutSeconds: -1: must not be negative"},
		{"period", func(p *v1.Probe) { p.PeriodSeconds = -2147483648 }, ".periodSeconds: -2147483648: must not be negative"},
		{"successes", func(p *v1.Probe) { p.SuccessThreshold = -1 }, ".successThreshold: -1: must not be negative"},
		{"more successes", func(p *v1.Probe) { p.SuccessThreshold = 2 }, ".successThreshold: 2: must be 1 for Liveness probes"},
		{"failures", func(p *v1.Probe) { p.FailureThreshold = -3 }, ".failureThreshold: -3: must not be negative"},
		{"grace", func(p *v1.Probe) { p.TerminationGracePeriodSeconds = new(int64(0)) }, ".terminationGracePeriodSeconds: 0: must be at least 1"},
		{"good grace", func(p *v1.Probe) { p.TerminationGracePeriodSeconds = new(int64(1)) }, ""},
		{"no handler", func(p *v1.Probe) { p.Exec = nil }, ": a handler is required: exec, httpGet, tcpSocket or grpc"},
		{"two handlers", func(p *v1.Probe) { p.GRPC = &v1.GRPCAction{Port: 1} }, ": 2 handlers: only one is allowed"},
		{"no command", func(p *v1.Probe) { p.Exec.Command = nil }, ".exec.command: is required"},
		{"http", http(func(*v1.HTTPGetAction) {}), ""},
		{"named port", http(func(a *v1.HTTPGetAction) { a.Port = intstr.FromString("web") }), ""},
		{"no port", http(func(a *v1.HTTPGetAction) { a.Port = intstr.FromString("") }), ".httpGet.port: is required"},
		{"port 0", http(func(a *v1.HTTPGetAction) { a.Port = intstr.FromInt32(0) }), ".httpGet.port: 0: must be between 1 and 65535"},
		{"scheme", http(func(a *v1.HTTPGetAction) { a.Scheme = "FTP" }), `.httpGet.scheme: "FTP": must be HTTP or HTTPS`},
		{"header", http(func(a *v1.HTTPGetAction) { a.HTTPHeaders = []v1.HTTPHeader{{Name: "A"}, {Name: "B\r\nC"}} }), `.httpGet.httpHeaders[1].name: "B\r\nC": is not a valid header name`},
		{"tcp port", func(p *v1.Probe) { p.Exec, p.TCPSocket = nil, &v1.TCPSocketAction{Port: intstr.FromInt32(65536)} }, ".tcpSocket.port: 65536: must be between 1 and 65535"},
		{"grpc port", func(p *v1.Probe) { p.Exec, p.GRPC = nil, &v1.GRPCAction{Port: -1} }, ".grpc.port: -1: must be between 1 and 65535"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bad := execProbe()
			tc.change(bad)
			pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{LivenessProbe: execProbe()}, {LivenessProbe: bad, StartupProbe: execProbe()}}}}
			errs := Validate(pod)
			if tc.want == "" {
				require.Empty(t, errs)
				return
			}
			require.Len(t, errs, 1)
			require.EqualError(t, errs[0], "spec.containers[1].livenessProbe"+tc.want)
		})
	}
}

// The allowed places of probes, and the fields that only some types allow.
func TestValidatePlaces(t *testing.T) {
	graceful := execProbe()
	graceful.TerminationGracePeriodSeconds = new(int64(5))
	twice := execProbe()
	twice.SuccessThreshold = 2
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{
			{ReadinessProbe: execProbe()},
			{RestartPolicy: new(v1.ContainerRestartPolicyAlways), StartupProbe: twice, ReadinessProbe: twice},
		},
		Containers:          []v1.Container{{ReadinessProbe: graceful}},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{LivenessProbe: execProbe()}}},
	}}
	var got []string
	for _, err := range Validate(pod) {
		got = append(got, err.Error())
	}
	require.Equal(t, []string{
		"spec.initContainers[0].readinessProbe: only regular containers and sidecars are probed",
		"spec.initContainers[1].startupProbe.successThreshold: 2: must be 1 for Startup probes",
		"spec.containers[0].readinessProbe.terminationGracePeriodSeconds: 5: must not be set for Readiness probes",
		"spec.ephemeralContainers[0].livenessProbe: only regular containers and sidecars are probed",
	}, got)
}
