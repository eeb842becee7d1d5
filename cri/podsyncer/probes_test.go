package podsyncer

import (
	"context"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
)

// asking is a probe that is executed each second and counts after so many failures.
func asking(command string, failures int32) *v1.Probe {
	return &v1.Probe{
		ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{command}}}, PeriodSeconds: 1, FailureThreshold: failures,
	}
}

// condition is the status of one of the pod's conditions.
func (w *world) condition(uid types.UID, t v1.PodConditionType) v1.ConditionStatus {
	if s := w.agent.statuses.Get(uid); s != nil {
		for _, c := range s.Conditions {
			if c.Type == t {
				return c.Status
			}
		}
	}
	return ""
}

func (w *world) container(uid types.UID, name string) v1.ContainerStatus {
	w.t.Helper()
	if s := w.agent.statuses.Get(uid); s != nil {
		for _, c := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
			if c.Name == name {
				return c
			}
		}
	}
	w.t.Fatalf("no status of container %s", name)
	return v1.ContainerStatus{}
}

// counting counts how often the program was started.
func counting(n *atomic.Int32, program fake.Program) fake.Resolver {
	return fake.Always(func(ctx context.Context, p *fake.Process) int {
		n.Add(1)
		return program(ctx, p)
	})
}
