package request

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/hostpath"
)

// ErrNotFound is wrapped by errors of ConfigMaps, Secrets and Volumes for objects that do not
// exist. API errors with the reason NotFound are equivalent.
var ErrNotFound = errors.New("not found")

// ErrNotSynced is wrapped by errors of Services until the services have been read for the first
// time.
var ErrNotSynced = errors.New("services have not yet been read at least once")

// ConfigMaps returns config maps. It is called each time a container that refers to one is
// configured, and may use a cache. Calls are concurrent. The results are not changed.
type ConfigMaps interface {
	// ConfigMap returns a config map, or an error that wraps ErrNotFound.
	ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
}

// Secrets returns secrets. It is called each time a container that refers to one is configured,
// and may use a cache. Calls are concurrent. The results are not changed.
type Secrets interface {
	// Secret returns a secret, or an error that wraps ErrNotFound.
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// Services lists services. It is called for every container, so it should use a cache. Calls are
// concurrent. The results are not changed.
type Services interface {
	// Services returns the services of a namespace, in any order. An error that wraps
	// ErrNotSynced prevents the start of all containers except in static pods.
	Services(ctx context.Context, namespace string) ([]*v1.Service, error)
}

// Volumes returns the volumes of pods. Calls are concurrent.
type Volumes interface {
	// Volume returns a volume of a pod by its name in the pod's spec. It fails if the volume does
	// not exist or is not mounted yet. It is not called for image volumes.
	Volume(ctx context.Context, pod *v1.Pod, name string) (volume.Mounted, error)
}

// SubPaths gives containers access to a part of a volume and to no path outside of it. Calls are
// concurrent for different pods.
type SubPaths interface {
	// Prepare returns the path to mount for a sub path. It makes missing directories, with the
	// mode of the volume. Symbolic links that a container has placed, or places later, must not
	// lead out of the volume, so the result is usually a bind mount of a safely opened directory.
	// Prepare is idempotent. Its error is not shown to users, because it may reveal details of
	// the node.
	Prepare(ctx context.Context, s volume.SubPath) (hostPath string, err error)
	// Release reverts a Prepare whose container is not created. Otherwise the sub path lasts
	// until the volume is unmounted.
	Release(ctx context.Context, s volume.SubPath) error
}

// Devices are a container's devices from device plugins and resource claims.
type Devices struct {
	// Devices are nodes below /dev.
	Devices []*runtimeapi.Device
	// CDI are fully qualified device names of the Container Device Interface.
	CDI []string
	// Mounts precede the mounts of the container's volumes.
	Mounts []*runtimeapi.Mount
	// Env precedes the container's own variables, which override it. Only Name and Value are
	// used.
	Env []v1.EnvVar
	// Annotations of this package override these.
	Annotations map[string]string
}

// HandlerFeatures are the optional features of a runtime handler, from the runtime's status.
type HandlerFeatures struct {
	// RecursiveReadOnlyMounts is true if a read-only mount can include the mounts below it
	// (KEP-3857).
	RecursiveReadOnlyMounts bool
	// UserNamespaces is true if pods can have user namespaces (KEP-127).
	UserNamespaces bool
}

// isNotFound reports whether an error means that an object does not exist.
func isNotFound(err error) bool {
	if errors.Is(err, ErrNotFound) {
		return true
	}
	var api interface{ Status() metav1.Status }
	return errors.As(err, &api) && api.Status().Reason == metav1.StatusReasonNotFound
}

// HostPaths is a Volumes that supports only hostPath volumes. It checks the path, and makes it if
// its type requires that, each time a container is configured.
type HostPaths struct{}

var _ Volumes = HostPaths{}

func (HostPaths) Volume(_ context.Context, pod *v1.Pod, name string) (volume.Mounted, error) {
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].HostPath
		if pod.Spec.Volumes[i].Name != name || source == nil {
			continue
		}
		path, err := hostpath.Prepare(source)
		if err != nil {
			return volume.Mounted{}, volume.AtField(fmt.Sprintf("spec.volumes[%d].hostPath", i), err)
		}
		return volume.Mounted{Path: path}, nil
	}
	return volume.Mounted{}, fmt.Errorf("no hostPath volume: %w", ErrNotFound)
}
