package podfacts

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
)

// ResizeMessage returns the message of a resize event: the given text, and the resources of the
// pod's containers as JSON. cause is the reason of a failed resize, or "".
func ResizeMessage(what string, pod *v1.Pod, cause string) string {
	type named struct {
		Name      string                  `json:"name"`
		Resources v1.ResourceRequirements `json:"resources"`
	}
	list := func(containers []v1.Container) (out []named) {
		for i := range containers {
			out = append(out, named{containers[i].Name, containers[i].Resources})
		}
		return out
	}
	data, _ := json.Marshal(struct { // amounts always marshal
		Resources      *v1.ResourceRequirements `json:"resources,omitempty"`
		InitContainers []named                  `json:"initContainers,omitempty"`
		Containers     []named                  `json:"containers,omitempty"`
		Generation     int64                    `json:"generation"`
		Error          string                   `json:"error,omitempty"`
	}{pod.Spec.Resources, list(pod.Spec.InitContainers), list(pod.Spec.Containers), pod.Generation, cause})
	return what + ": " + string(data)
}
