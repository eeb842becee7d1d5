package vmfleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
)

// Guest is the program of a machine. It returns its exit code. The power button cancels the
// context.
type Guest func(powered context.Context) (exitCode int32)

// Hypervisor has at most one machine per pod. Machines continue to run without an agent.
type Hypervisor struct {
	// Images are the guests by image name.
	Images map[string]Guest

	mu          sync.Mutex
	machines    map[types.UID]*machine
	subscribers map[*func(types.UID)]struct{}
}

// machine is one boot of a machine. The next boot replaces it.
type machine struct {
	status observed.Pod
	button context.CancelFunc
	off    chan struct{} // closed when the machine has stopped
}

var (
	_ pleg.Runtime     = (*Hypervisor)(nil)
	_ pleg.EventStream = (*Hypervisor)(nil)
)

// Boot starts the machine of a pod. The machine must not be running.
func (h *Hypervisor) Boot(ctx context.Context, pod *v1.Pod) error {
	c := pod.Spec.Containers[0]
	guest := h.Images[c.Image]
	if guest == nil {
		return fmt.Errorf("image %q: no such image", c.Image)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	boots := int32(0)
	if last := h.machines[pod.UID]; last != nil {
		boots = last.status.Containers[0].RestartCount + 1
	}
	on, button := context.WithCancel(context.WithoutCancel(ctx)) // the machine continues after the call
	m := &machine{button: button, off: make(chan struct{}), status: observed.Pod{
		UID: pod.UID, Name: pod.Name, Namespace: pod.Namespace, IPs: []string{"10.0.0.1"},
		Sandboxes: []observed.Sandbox{{ID: string(pod.UID), State: observed.SandboxReady, CreatedAt: time.Now(), HasNetworkStatus: true, IPs: []string{"10.0.0.1"}}},
		Containers: []observed.Container{{
			ID: observed.ContainerID{Runtime: "vm", ID: fmt.Sprintf("%s-%d", pod.UID, boots)}, Name: c.Name, SandboxID: string(pod.UID),
			State: observed.StateRunning, CreatedAt: time.Now(), StartedAt: time.Now(), Image: c.Image, RestartCount: boots,
		}},
	}}
	if h.machines == nil {
		h.machines = map[types.UID]*machine{}
	}
	h.machines[pod.UID] = m
	h.emit(pod.UID)
	go func() {
		defer button()
		h.stopped(m, guest(on))
	}()
	return nil
}

func (h *Hypervisor) stopped(m *machine, exitCode int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := &m.status.Containers[0]; c.State == observed.StateRunning {
		c.State, c.ExitCode, c.FinishedAt = observed.StateExited, exitCode, time.Now()
		m.status.Sandboxes[0].State = observed.SandboxNotReady
		close(m.off)
		h.emit(m.status.UID)
	}
}

// running reports whether the observed machine runs.
func running(seen *observed.Pod) bool {
	return len(seen.Containers) > 0 && seen.Containers[0].State == observed.StateRunning
}

// Shutdown presses the power button of a machine and waits until it is off. After the grace period
// it cuts the power.
func (h *Hypervisor) Shutdown(ctx context.Context, uid types.UID, grace time.Duration) error {
	h.mu.Lock()
	m := h.machines[uid]
	h.mu.Unlock()
	if m == nil {
		return nil
	}
	m.button()
	select {
	case <-m.off:
		return nil
	case <-time.After(grace):
		h.stopped(m, 137)
		return nil
	case <-ctx.Done():
		return fmt.Errorf("machine %s: shut down: %w", uid, context.Cause(ctx))
	}
}

// Destroy removes a stopped machine.
func (h *Hypervisor) Destroy(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.machines, uid)
	h.emit(uid)
}

// ListPods implements pleg.Runtime.
func (h *Hypervisor) ListPods(context.Context) ([]observed.ListedPod, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := []observed.ListedPod{}
	for _, uid := range slices.SortedFunc(maps.Keys(h.machines), cmp.Compare[types.UID]) {
		s := &h.machines[uid].status
		c, sandbox := s.Containers[0], s.Sandboxes[0]
		out = append(out, observed.ListedPod{
			UID: uid, Name: s.Name, Namespace: s.Namespace, CreatedAt: c.CreatedAt,
			Sandboxes:  []observed.ListedSandbox{{ID: sandbox.ID, State: sandbox.State}},
			Containers: []observed.ListedContainer{{ID: c.ID, Name: c.Name, State: c.State}},
		})
	}
	return out, nil
}

// PodStatus implements pleg.Runtime. Results are copies.
func (h *Hypervisor) PodStatus(_ context.Context, uid types.UID) (*observed.Pod, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.machines[uid]
	if m == nil {
		return &observed.Pod{UID: uid}, nil
	}
	s := m.status
	s.Sandboxes, s.Containers = slices.Clone(s.Sandboxes), slices.Clone(s.Containers)
	return &s, nil
}

// PodEvents implements pleg.EventStream.
func (h *Hypervisor) PodEvents(ctx context.Context, dirty func(types.UID)) error {
	h.mu.Lock()
	if h.subscribers == nil {
		h.subscribers = map[*func(types.UID)]struct{}{}
	}
	h.subscribers[&dirty] = struct{}{}
	h.mu.Unlock()
	<-ctx.Done()
	h.mu.Lock()
	delete(h.subscribers, &dirty)
	h.mu.Unlock()
	return ctx.Err()
}

// emit reports an event of a machine. The caller holds h.mu.
func (h *Hypervisor) emit(uid types.UID) {
	for dirty := range h.subscribers {
		(*dirty)(uid)
	}
}
