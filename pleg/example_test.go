package pleg_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
)

// fleet is a fleet of virtual machines. Each machine is a pod, with one sandbox and one
// container.
type fleet struct {
	mu       sync.Mutex
	machines map[types.UID]string // "running" or "stopped"
}

func (f *fleet) set(name types.UID, state string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.machines[name] = state
}

// ListPods implements pleg.Runtime.
func (f *fleet) ListPods(context.Context) ([]observed.ListedPod, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []observed.ListedPod
	for name := range f.machines {
		out = append(out, f.status(name).Listed())
	}
	return out, nil
}

// PodStatus implements pleg.Runtime.
func (f *fleet) PodStatus(_ context.Context, uid types.UID) (*observed.Pod, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.machines[uid]; !ok {
		return &observed.Pod{UID: uid}, nil
	}
	return f.status(uid), nil
}

func (f *fleet) status(name types.UID) *observed.Pod {
	sandbox, container := observed.SandboxNotReady, observed.StateExited
	if f.machines[name] == "running" {
		sandbox, container = observed.SandboxReady, observed.StateRunning
	}
	return &observed.Pod{
		UID: name, Name: string(name), Namespace: "machines",
		Sandboxes: []observed.Sandbox{{ID: "vm-" + string(name), State: sandbox}},
		Containers: []observed.Container{{
			ID: observed.ContainerID{Runtime: "fleet", ID: string(name)}, Name: "machine", SandboxID: "vm-" + string(name), State: container,
		}},
	}
}

// A PLEG observes a fleet of virtual machines.
func Example() {
	vms := &fleet{machines: map[types.UID]string{}}
	died := make(chan pleg.Event, 1)
	health := make(chan error, 10)
	p, err := pleg.New(pleg.Config{
		Runtime:      vms,
		RelistPeriod: 10 * time.Millisecond,
		OnHealth:     func(err error) { health <- err },
		OnEvent: func(e pleg.Event) {
			if e.Type == pleg.Died && !e.Sandbox {
				died <- e
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- p.Run(ctx) }()
	fmt.Println("healthy:", <-health == nil) // the first list is complete

	// The actor starts a machine and needs a status that is newer.
	vms.set("mail", "running")
	acted := time.Now()
	status, err := p.Observe(ctx, "mail", acted)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("mail:", status.Newest("machine").State)

	// A machine stops by itself.
	vms.set("mail", "stopped")
	e := <-died
	status, err = p.Get(e.UID)
	fmt.Println(e.UID, e.Type, "->", status.Newest("machine").State, err)

	cancel()
	fmt.Println("stopped:", <-stopped)
	// Output:
	// healthy: true
	// mail: running
	// mail died -> exited <nil>
	// stopped: <nil>
}
