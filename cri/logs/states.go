package logs

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

// States tells which containers run. It is asked about one container when its log
// was closed, and about all whose logs are followed once a period, so whoever
// knows already (the cache of PLEG) should answer from memory. It is safe for
// concurrent use.
type States interface {
	// Running tells for each ID whether the container runs. One that does not
	// is not followed any further, so what is not known counts as running. An
	// error means that nothing is known of any. ids is not to be changed or kept.
	// It returns when ctx ends.
	Running(ctx context.Context, ids []string) ([]bool, error)
}

// RuntimeStates asks a runtime: with ContainerStatus about one container, with a
// single ListContainers about several. A container that the runtime does not know
// has stopped; one in state Unknown counts as running.
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

func runs(state runtimeapi.ContainerState) bool {
	return state == runtimeapi.ContainerState_CONTAINER_RUNNING || state == runtimeapi.ContainerState_CONTAINER_UNKNOWN
}
