package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/pleg/observed"
)

// PodIPs reads the current addresses of a pod from the runtime, the primary one first: of its
// newest sandbox, if that is ready. A host-network pod has the node's addresses (Config.NodeIPs).
// Only the UID of pod is used. Use PodIPs for hooks.Config.PodIPs.
func (o *Observer) PodIPs(ctx context.Context, pod *v1.Pod) ([]string, error) {
	if pod == nil || pod.UID == "" {
		return nil, errors.New("pod IPs: no UID")
	}
	sandboxes, err := ListSandboxes(ctx, o.cfg.Runtime, &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{labels.PodUID: string(pod.UID)},
	})
	if err != nil {
		return nil, fmt.Errorf("pod IPs of %s: list sandboxes: %w", pod.UID, err)
	}
	if len(sandboxes) == 0 {
		return nil, nil
	}
	sortSandboxes(sandboxes)
	newest, err := o.inspectSandbox(ctx, sandboxes[0])
	switch {
	case err != nil:
		return nil, fmt.Errorf("pod IPs of %s: %w", pod.UID, err)
	case newest == nil || newest.State != observed.SandboxReady:
		return nil, nil
	case newest.HostNetwork:
		return o.nodeIPs(), nil
	default:
		return newest.IPs, nil
	}
}

func (o *Observer) nodeIPs() []string {
	if o.cfg.NodeIPs == nil {
		return nil
	}
	return slices.Clone(o.cfg.NodeIPs())
}
