package probe

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Validate returns the errors in the probes of a pod. Each contains its field, such as
// "spec.containers[1].livenessProbe.periodSeconds: -1: must not be negative". AddPod rejects the
// same probes, and so does an API server. Validate does not look up named ports; a probe with an
// unknown port fails to execute.
func Validate(pod *v1.Pod) []error {
	var faults []error
	for _, at := range declarations(pod) {
		faults = append(faults, at.faults()...)
	}
	return faults
}

func (at declaration) faults() []error {
	if !at.allowed {
		return []error{fmt.Errorf("%s: only regular containers and sidecars are probed", at.path)}
	}
	f := faulter{path: at.path}
	p := at.probe
	f.numbers(p)
	if p.SuccessThreshold > 1 && at.typ != Readiness {
		f.add("successThreshold", "%d: must be 1 for %s probes", p.SuccessThreshold, at.typ)
	}
	if grace := p.TerminationGracePeriodSeconds; grace != nil {
		switch {
		case at.typ == Readiness:
			f.add("terminationGracePeriodSeconds", "%d: must not be set for %s probes", *grace, at.typ)
		case *grace < 1:
			f.add("terminationGracePeriodSeconds", "%d: must be at least 1", *grace)
		}
	}
	f.handlers(p)
	return f.found
}

type faulter struct {
	path  string
	found []error
}

func (f *faulter) add(field, format string, args ...any) {
	path := f.path
	if field != "" {
		path += "." + field
	}
	f.found = append(f.found, errors.New(path+": "+fmt.Sprintf(format, args...)))
}

func (f *faulter) numbers(p *v1.Probe) {
	for _, n := range []struct {
		field string
		value int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds},
		{"timeoutSeconds", p.TimeoutSeconds},
		{"periodSeconds", p.PeriodSeconds},
		{"successThreshold", p.SuccessThreshold},
		{"failureThreshold", p.FailureThreshold},
	} {
		if n.value < 0 {
			f.add(n.field, "%d: must not be negative", n.value)
		}
	}
}

func (f *faulter) handlers(p *v1.Probe) {
	count := 0
	if p.Exec != nil {
		count++
		if len(p.Exec.Command) == 0 {
			f.add("exec.command", "is required")
		}
	}
	if p.HTTPGet != nil {
		count++
		f.http(p.HTTPGet)
	}
	if p.TCPSocket != nil {
		count++
		f.port("tcpSocket.port", p.TCPSocket.Port)
	}
	if p.GRPC != nil {
		count++
		f.port("grpc.port", intstr.FromInt32(p.GRPC.Port))
	}
	switch {
	case count == 0:
		f.add("", "a handler is required: exec, httpGet, tcpSocket or grpc")
	case count > 1:
		f.add("", "%d handlers: only one is allowed", count)
	}
}

func (f *faulter) http(get *v1.HTTPGetAction) {
	f.port("httpGet.port", get.Port)
	switch get.Scheme {
	case "", v1.URISchemeHTTP, v1.URISchemeHTTPS:
	default:
		f.add("httpGet.scheme", "%q: must be HTTP or HTTPS", get.Scheme)
	}
	for i, h := range get.HTTPHeaders {
		if len(validation.IsHTTPHeaderName(h.Name)) > 0 {
			f.add(fmt.Sprintf("httpGet.httpHeaders[%d].name", i), "%q: is not a valid header name", h.Name)
		}
	}
}

func (f *faulter) port(field string, port intstr.IntOrString) {
	switch {
	case port.Type == intstr.String && port.StrVal == "":
		f.add(field, "is required")
	case port.Type == intstr.Int && (port.IntVal < 1 || port.IntVal > 65535):
		f.add(field, "%d: must be between 1 and 65535", port.IntVal)
	}
}
