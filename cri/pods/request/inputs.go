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

// ErrNotFound is wrapped by the errors of ConfigMaps, Secrets and Volumes for
// what does not exist. An error of an API server that says so does as well.
var ErrNotFound = errors.New("not found")

// ErrNotSynced is wrapped by the errors of Services while the services have not
// been read yet.
var ErrNotSynced = errors.New("services have not yet been read at least once")

// ConfigMaps gets config maps. It is asked whenever a container that refers to
// one is configured, and may answer from a cache. Methods are called
// concurrently; what they return is not changed.
type ConfigMaps interface {
	// ConfigMap returns a config map, or an error that wraps ErrNotFound.
	ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
}

// Secrets gets secrets. It is asked whenever a container that refers to one is
// configured, and may answer from a cache. Methods are called concurrently;
// what they return is not changed.
type Secrets interface {
	// Secret returns a secret, or an error that wraps ErrNotFound.
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// Services lists services. It answers from a cache: it is asked for every
// container. Methods are called concurrently; what they return is not changed.
type Services interface {
	// Services returns the services of a namespace, in any order. An error that
	// wraps ErrNotSynced holds back all containers but those of static pods.
	Services(ctx context.Context, namespace string) ([]*v1.Service, error)
}

// Volumes tells where the volumes of pods are. Methods are called concurrently.
type Volumes interface {
	// Volume returns a volume of a pod by its name in the pod's spec. One that
	// is not there, or not mounted yet, is an error. It is not asked for image
	// volumes.
	Volume(ctx context.Context, pod *v1.Pod, name string) (Volume, error)
}

// Volume is a volume as far as containers depend on it.
type Volume = volume.Mounted

// SubPaths gives containers a part of a volume without letting them out of it.
// Methods are called concurrently, but not for one pod.
type SubPaths interface {
	// Prepare returns what to mount for a sub path. What does not exist is made,
	// a directory with the mode of the volume. No symbolic link that a container
	// may have placed or may still place there must lead out of the volume, so
	// the result is usually a bind mount of what was opened with care. Preparing
	// again what is prepared already succeeds. The error is not shown to users:
	// it may tell them about the node.
	Prepare(ctx context.Context, s SubPath) (hostPath string, err error)
	// Release undoes a Prepare whose container is not created. Others last until
	// the volume is unmounted.
	Release(ctx context.Context, s SubPath) error
}

// SubPath names a part of a volume. Package volume/subpath implements SubPaths.
type SubPath = volume.SubPath

// Devices is what device plugins and resource claims give to a container.
type Devices struct {
	// Devices are nodes below /dev.
	Devices []*runtimeapi.Device
	// CDI are fully qualified names of devices of the Container Device Interface.
	CDI []string
	// Mounts come before those of the container's volumes.
	Mounts []*runtimeapi.Mount
	// Env come before the container's own variables, which win. Only Name and
	// Value count.
	Env []v1.EnvVar
	// Annotations give way to those of this package.
	Annotations map[string]string
}

// HandlerFeatures are the optional abilities of a runtime handler, as the
// runtime reports them in its status.
type HandlerFeatures struct {
	// RecursiveReadOnlyMounts tells that a read-only mount can include what is
	// mounted below it (KEP-3857).
	RecursiveReadOnlyMounts bool
	// UserNamespaces tells that pods can have their own users (KEP-127).
	UserNamespaces bool
}

// isNotFound tells whether an error says that an object does not exist.
func isNotFound(err error) bool {
	if errors.Is(err, ErrNotFound) {
		return true
	}
	var api interface{ Status() metav1.Status }
	return errors.As(err, &api) && api.Status().Reason == metav1.StatusReasonNotFound
}

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
