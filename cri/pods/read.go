package pods

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/pleg"
)

// Manager is what a pleg.Observer looks through.
var (
	_ pleg.Runtime     = (*Manager)(nil)
	_ pleg.EventStream = (*Manager)(nil)
)

// ListPods lists every pod in the runtime that a kubelet made.
func (m *Manager) ListPods(ctx context.Context) ([]pleg.ObservedPod, error) {
	sandboxes, containers, err := m.list(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return groupPods(m.cfg.RuntimeName, sandboxes, containers), nil
}

// list asks for sandboxes and containers at the same time: of one pod, or of all
// when uid is empty.
func (m *Manager) list(ctx context.Context, uid types.UID) ([]*runtimeapi.PodSandbox, []*runtimeapi.Container, error) {
	var sandboxFilter *runtimeapi.PodSandboxFilter
	var containerFilter *runtimeapi.ContainerFilter
	if uid != "" {
		selector := map[string]string{LabelPodUID: string(uid)}
		sandboxFilter = &runtimeapi.PodSandboxFilter{LabelSelector: selector}
		containerFilter = &runtimeapi.ContainerFilter{LabelSelector: selector}
	}
	var sandboxes []*runtimeapi.PodSandbox
	var containers []*runtimeapi.Container
	errs := parallel(2, func(i int) (err error) {
		switch {
		case i == 0:
			sandboxes, err = m.cfg.Runtime.ListPodSandbox(ctx, sandboxFilter)
		case uid == "":
			containers, err = m.listContainers(ctx)
		default:
			containers, err = m.cfg.Runtime.ListContainers(ctx, containerFilter)
		}
		return err
	})
	return sandboxes, containers, errors.Join(errs...)
}

// PodStatus looks at one pod in detail. What disappears between the list and the
// look is left out; any other failure fails the whole.
func (m *Manager) PodStatus(ctx context.Context, uid types.UID) (*pleg.PodStatus, error) {
	if uid == "" {
		return nil, errors.New("pod status: no UID")
	}
	sandboxes, containers, err := m.list(ctx, uid)
	if err != nil {
		return nil, fmt.Errorf("pod status of %s: list: %w", uid, err)
	}
	status := &pleg.PodStatus{UID: uid}
	sandboxes = slices.DeleteFunc(sandboxes, func(sb *runtimeapi.PodSandbox) bool {
		p, ok := sandboxIdentity(sb)
		if ok {
			status.Name, status.Namespace = p.Name, p.Namespace
		}
		return !ok
	})
	containers = slices.DeleteFunc(containers, func(c *runtimeapi.Container) bool {
		p, _, ok := containerIdentity(c)
		if ok && status.Name == "" {
			status.Name, status.Namespace = p.Name, p.Namespace
		}
		return !ok
	})
	sortSandboxes(sandboxes)
	sortContainers(containers)
	if err := m.inspect(ctx, status, sandboxes, containers); err != nil {
		return nil, fmt.Errorf("pod status of %s/%s(%s): %w", status.Namespace, status.Name, uid, err)
	}
	if len(status.Sandboxes) > 0 && status.Sandboxes[0].State == pleg.SandboxReady {
		status.IPs = slices.Clone(status.Sandboxes[0].IPs)
	}
	return status, nil
}

// inspect fills in the details of every listed object.
func (m *Manager) inspect(ctx context.Context, status *pleg.PodStatus, sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) error {
	foundSandboxes := make([]*pleg.Sandbox, len(sandboxes))
	foundContainers := make([]*pleg.ContainerStatus, len(containers))
	errs := parallel(len(sandboxes)+len(containers), func(i int) (err error) {
		if i < len(sandboxes) {
			foundSandboxes[i], err = m.inspectSandbox(ctx, sandboxes[i])
			return err
		}
		i -= len(sandboxes)
		foundContainers[i], err = m.inspectContainer(ctx, containers[i])
		return err
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, sb := range foundSandboxes {
		if sb != nil {
			status.Sandboxes = append(status.Sandboxes, *sb)
		}
	}
	for _, c := range foundContainers {
		if c != nil {
			status.Containers = append(status.Containers, *c)
		}
	}
	return nil
}

// inspectSandbox returns nil for a sandbox that is gone.
func (m *Manager) inspectSandbox(ctx context.Context, listed *runtimeapi.PodSandbox) (*pleg.Sandbox, error) {
	response, err := m.cfg.Runtime.PodSandboxStatus(ctx, listed.Id, false)
	if cri.IsNotFound(err) {
		return nil, nil
	}
	if err == nil && response.GetStatus() == nil {
		err = errors.New("the runtime answered without a status")
	}
	if err != nil {
		return nil, fmt.Errorf("status of sandbox %s: %w", listed.Id, err)
	}
	sb := toSandbox(response.Status)
	return &sb, nil
}

// inspectContainer returns nil for a container that is gone.
func (m *Manager) inspectContainer(ctx context.Context, listed *runtimeapi.Container) (*pleg.ContainerStatus, error) {
	response, err := m.cfg.Runtime.ContainerStatus(ctx, listed.Id, false)
	if cri.IsNotFound(err) {
		return nil, nil
	}
	if err == nil && response.GetStatus() == nil {
		err = errors.New("the runtime answered without a status")
	}
	if err != nil {
		return nil, fmt.Errorf("status of container %s (%s): %w", listed.Labels[LabelContainerName], listed.Id, err)
	}
	c := toContainerStatus(m.cfg.RuntimeName, listed.PodSandboxId, response.Status)
	if c.State == pleg.StateExited {
		c.Message = joinMessages(c.Message, terminationMessage(response.Status))
	}
	return &c, nil
}

// PodEvents calls dirty with the pod of each event of the runtime. It answers
// pleg.ErrNoEvents when the runtime has none.
func (m *Manager) PodEvents(ctx context.Context, dirty func(types.UID)) error {
	streamer, ok := m.cfg.Runtime.(cri.EventStreamer)
	if !ok {
		return pleg.ErrNoEvents
	}
	err := streamer.GetContainerEvents(ctx, func(event *runtimeapi.ContainerEventResponse) {
		if uid := eventUID(event); uid != "" {
			dirty(uid)
		}
	})
	if cri.IsUnimplemented(err) {
		return fmt.Errorf("%w: %w", pleg.ErrNoEvents, err)
	}
	return err
}

// eventUID tells which pod an event is about; "" when it does not say.
func eventUID(event *runtimeapi.ContainerEventResponse) types.UID {
	if uid := event.GetPodSandboxStatus().GetLabels()[LabelPodUID]; uid != "" {
		return types.UID(uid)
	}
	for _, c := range event.GetContainersStatuses() {
		if uid := c.GetLabels()[LabelPodUID]; uid != "" {
			return types.UID(uid)
		}
	}
	return types.UID(event.GetPodSandboxStatus().GetMetadata().GetUid())
}
