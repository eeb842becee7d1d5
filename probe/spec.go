package probe

import (
	"cmp"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// Defaults of the Kubernetes API, for pods that did not pass an API server.
const (
	defaultTimeout   = 1  // seconds
	defaultPeriod    = 10 // seconds
	defaultSuccesses = 1
	defaultFailures  = 3
)

type declaration struct {
	// path is the probe's field, such as "spec.containers[0].livenessProbe".
	path string
	// container has the probe. It may be a plain init or ephemeral container, where probes are
	// not allowed.
	container *v1.Container
	allowed   bool
	typ       Type
	probe     *v1.Probe
	timing    Timing
}

var probeFields = [...]string{Liveness: "livenessProbe", Readiness: "readinessProbe", Startup: "startupProbe"}

// declarations returns all probes of a pod, including forbidden ones.
func declarations(pod *v1.Pod) (out []declaration) {
	spec := &pod.Spec
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		out = append(out, declarationsOf(c, podfacts.IsSidecar(c), "initContainers", i)...)
	}
	for i := range spec.Containers {
		out = append(out, declarationsOf(&spec.Containers[i], true, "containers", i)...)
	}
	for i := range spec.EphemeralContainers {
		c := (*v1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon)
		out = append(out, declarationsOf(c, false, "ephemeralContainers", i)...)
	}
	return out
}

func declarationsOf(c *v1.Container, allowed bool, list string, i int) (out []declaration) {
	for typ, probe := range [...]*v1.Probe{Liveness: c.LivenessProbe, Readiness: c.ReadinessProbe, Startup: c.StartupProbe} {
		if probe != nil {
			path := fmt.Sprintf("spec.%s[%d].%s", list, i, probeFields[typ])
			out = append(out, declaration{path: path, container: c, allowed: allowed, typ: Type(typ), probe: probe})
		}
	}
	return out
}

// withDefaults returns a copy of the probe with defaults for zero numbers.
func withDefaults(p *v1.Probe) *v1.Probe {
	filled := *p
	filled.TimeoutSeconds = cmp.Or(p.TimeoutSeconds, defaultTimeout)
	filled.PeriodSeconds = cmp.Or(p.PeriodSeconds, defaultPeriod)
	filled.SuccessThreshold = cmp.Or(p.SuccessThreshold, defaultSuccesses)
	filled.FailureThreshold = cmp.Or(p.FailureThreshold, defaultFailures)
	return &filled
}

func rulesOf(typ Type, p *v1.Probe) rules {
	return rules{typ: typ, successes: p.SuccessThreshold, failures: p.FailureThreshold, delay: seconds(p.InitialDelaySeconds)}
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }
