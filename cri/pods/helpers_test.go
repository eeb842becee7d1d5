package pods

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/probe"
)

// container is an instance as an observer sees it.
func container(name string, state pleg.State, change ...func(*pleg.ContainerStatus)) pleg.ContainerStatus {
	c := pleg.ContainerStatus{
		ID: pleg.ContainerID{Runtime: "fake", ID: name + "-" + state.String()}, Name: name, SandboxID: "s", State: state,
		Hash: Hash(&v1.Container{Name: name, Image: "busybox"}),
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// instances returns the instances of a container in a state.
func instances(s *pleg.PodStatus, name string, state pleg.State) []pleg.ContainerStatus {
	var out []pleg.ContainerStatus
	for _, c := range s.Containers {
		if c.Name == name && c.State == state {
			out = append(out, c)
		}
	}
	return out
}

func readySandboxes(s *pleg.PodStatus) (n int) {
	for _, sb := range s.Sandboxes {
		if sb.State == pleg.SandboxReady {
			n++
		}
	}
	return n
}

func ptr[T any](v T) *T { return &v }

// found is what a probe has found of a container.
func found(c *pleg.ContainerStatus, t probe.Type, result probe.Verdict) probe.Results {
	return probe.Results{{Container: c.Name, ContainerID: c.ID.String(), Type: t, Result: result}}
}
