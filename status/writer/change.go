package writer

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// change is what others are told of a change.
type change struct {
	happened bool
	ended    []terminated
}

type terminated struct {
	kind  string
	state *v1.ContainerStateTerminated
}

// newlyTerminated are the containers that have terminated between two statuses.
func newlyTerminated(before, s *v1.PodStatus) (out []terminated) {
	for _, list := range []struct {
		kind   string
		is, of []v1.ContainerStatus
	}{
		{"init_containers", s.InitContainerStatuses, before.InitContainerStatuses},
		{"containers", s.ContainerStatuses, before.ContainerStatuses},
		{"ephemeral_containers", s.EphemeralContainerStatuses, before.EphemeralContainerStatuses},
	} {
		for i := range list.is {
			if state := list.is[i].State.Terminated; state != nil && !hasTerminated(list.of, list.is[i].Name) {
				out = append(out, terminated{list.kind, state})
			}
		}
	}
	return out
}

func hasTerminated(list []v1.ContainerStatus, name string) bool {
	for i := range list {
		if list[i].Name == name {
			return list[i].State.Terminated != nil
		}
	}
	return false
}

// tell tells others of a change. w.mu is not held.
func (w *Writer) tell(uid types.UID, c change) {
	if told := w.cfg.Metrics.OnTerminated; told != nil {
		for _, ended := range c.ended {
			told(ended.kind, ended.state)
		}
	}
	if c.happened && w.cfg.OnChange != nil {
		w.cfg.OnChange(uid)
	}
}
