package pods

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/pleg"
)

// PodIPs asks the runtime for the addresses that a pod has at this moment, the
// primary one first: those of its newest sandbox while that is ready, or of the
// node for a pod in the host's network. It is what a hooks.Config wants as PodIPs.
// Of pod the UID is used.
func (m *Manager) PodIPs(ctx context.Context, pod *v1.Pod) ([]string, error) {
	if pod.UID == "" {
		return nil, errors.New("pod IPs: no UID")
	}
	sandboxes, err := m.cfg.Runtime.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{LabelPodUID: string(pod.UID)},
	})
	if err != nil {
		return nil, fmt.Errorf("pod IPs of %s: list sandboxes: %w", pod.UID, err)
	}
	if len(sandboxes) == 0 {
		return nil, nil
	}
	sortSandboxes(sandboxes)
	newest, err := m.inspectSandbox(ctx, sandboxes[0])
	switch {
	case err != nil:
		return nil, fmt.Errorf("pod IPs of %s: %w", pod.UID, err)
	case newest == nil || newest.State != pleg.SandboxReady:
		return nil, nil
	case newest.HostNetwork:
		return m.builder.PodIPs(&v1.Pod{Spec: v1.PodSpec{HostNetwork: true}}, nil), nil
	default:
		return newest.IPs, nil
	}
}
