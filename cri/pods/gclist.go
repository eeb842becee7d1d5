package pods

import (
	"context"
	"errors"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

// listContainers lists the containers of all pods. More of them than fit into one
// reply are asked for sandbox by sandbox: the worst moment to see nothing at all is
// when there is too much. A container is never without its sandbox.
func (m *Manager) listContainers(ctx context.Context) ([]*runtimeapi.Container, error) {
	all, err := m.cfg.Runtime.ListContainers(ctx, nil)
	if !errors.Is(err, cri.ErrReplyTooLarge) {
		return all, err
	}
	m.log.Warn("more containers than fit into one list; listing them sandbox by sandbox", "err", err)
	sandboxes, err := m.cfg.Runtime.ListPodSandbox(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("sandbox by sandbox: %w", err)
	}
	for _, sb := range sandboxes {
		some, err := m.cfg.Runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{PodSandboxId: sb.Id})
		if err != nil {
			return nil, fmt.Errorf("sandbox %s: %w", sb.Id, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// listEverything lists sandboxes and containers of all pods. The containers come
// last: a sandbox of this list that holds one, does so in that list, too.
func (m *Manager) listEverything(ctx context.Context) ([]*runtimeapi.PodSandbox, []*runtimeapi.Container, error) {
	sandboxes, err := m.cfg.Runtime.ListPodSandbox(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	containers, err := m.listContainers(ctx)
	return sandboxes, containers, err
}
