package podsyncer

import (
	"context"
	"sync"
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

// answers are what commands in containers say.
type answers struct {
	mu    sync.Mutex
	exits map[string]int // "container command"; others exit with 0
	asked map[string]int
}

func newAnswers() *answers { return &answers{exits: map[string]int{}, asked: map[string]int{}} }

func (a *answers) exec() fake.Resolver {
	return fake.Always(func(_ context.Context, p *fake.Process) int {
		a.mu.Lock()
		defer a.mu.Unlock()
		key := p.Container.Name + " " + p.Args[0]
		a.asked[key]++
		return a.exits[key]
	})
}

func (a *answers) set(key string, exit int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.exits[key] = exit
}

func (a *answers) count(key string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[key]
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
