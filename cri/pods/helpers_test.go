package pods

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
)

// container is an instance as an observer sees it.
func container(name string, state observed.State, change ...func(*observed.Container)) observed.Container {
	c := observed.Container{
		ID: observed.ContainerID{Runtime: "fake", ID: name + "-" + state.String()}, Name: name, SandboxID: "s", State: state,
		Hash: podfacts.Hash(&v1.Container{Name: name, Image: "busybox"}),
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// instances returns the instances of a container in a state.
func instances(s *observed.Pod, name string, state observed.State) []observed.Container {
	var out []observed.Container
	for _, c := range s.Containers {
		if c.Name == name && c.State == state {
			out = append(out, c)
		}
	}
	return out
}

func readySandboxes(s *observed.Pod) (n int) {
	for _, sb := range s.Sandboxes {
		if sb.State == observed.SandboxReady {
			n++
		}
	}
	return n
}

func ptr[T any](v T) *T { return &v }

// found is what a probe has found of a container.
func found(c *observed.Container, t probe.Type, result probe.Verdict) probe.Results {
	return probe.Results{{Container: c.Name, ContainerID: c.ID.String(), Type: t, Result: result}}
}
