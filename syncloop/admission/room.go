package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/syncloop"
)

// AwaitRoom returns an Admitter for a node without an API server: static pods that next rejects for
// lack of room wait and are admitted when there is room, because no scheduler moves them to another
// node. Lack of room is a shortage of resources, host ports, or aligned CPUs, memory and devices.
// A pod that exceeds the whole node's cpu, memory, ephemeral storage or number of pods is rejected.
// The error of a waiting pod has the reason and the message of the rejection. The upstream kubelet
// rejects all such pods permanently.
func (f *Fit) AwaitRoom(next syncloop.Admitter) syncloop.Admitter {
	return syncloop.AdmitterFunc(func(pod *v1.Pod, active []*v1.Pod) error {
		err := next.Admit(pod, active)
		var rejection *syncloop.Rejection
		if !podfacts.IsStatic(pod) || !errors.As(err, &rejection) || rejection == nil || !lacksRoom(rejection.Reason) || f.exceedsNode(pod) {
			return err
		}
		return fmt.Errorf("waiting for room: %s: %s", rejection.Reason, rejection.Message)
	})
}

// exceedsNode reports whether a pod without other pods lacks a resource that a node cannot gain. The
// capacity of other resources changes with device plugins.
func (f *Fit) exceedsNode(pod *v1.Pod) bool {
	return slices.ContainsFunc(f.Shortages(pod, nil), func(s Shortage) bool {
		switch s.Name {
		case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, v1.ResourcePods:
			return true
		}
		return false
	})
}

func lacksRoom(reason string) bool {
	return strings.HasPrefix(reason, "OutOf") || reason == "NodePorts" || reason == "TopologyAffinityError"
}
