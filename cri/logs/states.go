package logs

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

// States reports which containers are running. Running is called for one container when its log is
// closed, and once a period for all containers whose logs are followed, so implementations with a
// cache (such as the PLEG's) should use it. It must be safe for concurrent use.
type States interface {
	// Running reports for each ID whether the container is running. Following ends for a container
	// that is not, so an unknown state must be reported as running. After an error following
	// continues. Running must not change or keep ids. It returns when ctx ends.
	Running(ctx context.Context, ids []string) ([]bool, error)
}

// RuntimeStates reads states from a runtime: ContainerStatus for one container, a single
// ListContainers for several. A container that the runtime does not list has stopped, and one that
// was only created counts as stopped; one in state Unknown counts as running.
func RuntimeStates(runtime cri.ContainerReader) States { return runtimeStates{runtime} }

type runtimeStates struct{ runtime cri.ContainerReader }

func (s runtimeStates) Running(ctx context.Context, ids []string) ([]bool, error) {
	if len(ids) == 1 {
		reply, err := s.runtime.ContainerStatus(ctx, ids[0], false)
		if cri.IsNotFound(err) {
			return []bool{false}, nil
		}
		if err != nil {
			return nil, err
		}
		return []bool{runs(reply.GetStatus().GetState())}, nil
	}
	list, err := s.runtime.ListContainers(ctx, nil)
	if err != nil {
		return nil, err
	}
	running := make(map[string]bool, len(list))
	for _, c := range list {
		running[c.GetId()] = runs(c.GetState())
	}
	answers := make([]bool, len(ids))
	for i, id := range ids {
		answers[i] = running[id]
	}
	return answers, nil
}

// runs reports whether a container may run. A state that is not part of the API counts as unknown.
func runs(state runtimeapi.ContainerState) bool {
	return state != runtimeapi.ContainerState_CONTAINER_CREATED && state != runtimeapi.ContainerState_CONTAINER_EXITED
}
