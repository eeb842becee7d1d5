package request

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/hostpath"
)

// HostPaths is the Volumes of an agent that knows hostPath volumes only. The path
// is checked, and made if its type says so, whenever a container is configured.
type HostPaths struct{}

var _ Volumes = HostPaths{}

// Volume implements Volumes.
func (HostPaths) Volume(_ context.Context, pod *v1.Pod, name string) (Volume, error) {
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].HostPath
		if pod.Spec.Volumes[i].Name != name || source == nil {
			continue
		}
		path, err := hostpath.Prepare(source)
		if err != nil {
			return Volume{}, volume.AtField(fmt.Sprintf("spec.volumes[%d].hostPath", i), err)
		}
		return Volume{Path: path}, nil
	}
	return Volume{}, fmt.Errorf("no hostPath volume: %w", ErrNotFound)
}
