package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

// ListContainers lists the containers of all pods. More of them than fit into one
// reply are asked for sandbox by sandbox: the worst moment to see nothing at all is
// when there is too much. A container is never without its sandbox.
func ListContainers(ctx context.Context, runtime Runtime, log *slog.Logger) ([]*runtimeapi.Container, error) {
	all, err := runtime.ListContainers(ctx, nil)
	if !errors.Is(err, cri.ErrReplyTooLarge) {
		return all, err
	}
	log.Warn("more containers than fit into one list; listing them sandbox by sandbox", "err", err)
	sandboxes, err := runtime.ListPodSandbox(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("sandbox by sandbox: %w", err)
	}
	for _, sb := range sandboxes {
		some, err := runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{PodSandboxId: sb.Id})
		if err != nil {
			return nil, fmt.Errorf("sandbox %s: %w", sb.Id, err)
		}
		all = append(all, some...)
	}
	return all, nil
}
