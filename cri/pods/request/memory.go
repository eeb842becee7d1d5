package request

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume"
)

// Memory has config maps, secrets, services, volumes and sub paths in memory, for tests and for
// agents without an API server. It implements ConfigMaps, Secrets, Services, Volumes and
// SubPaths. The zero value is empty. Do not change added objects; replace them instead. Memory is
// safe for concurrent use.
type Memory struct {
	mu         sync.Mutex
	configMaps map[string]*v1.ConfigMap
	secrets    map[string]*v1.Secret
	services   []*v1.Service
	volumes    map[string]volume.Mounted
	prepared   map[volume.SubPath]bool
}

// AddConfigMap adds a config map, or replaces an existing one with the same name.
func (m *Memory) AddConfigMap(c *v1.ConfigMap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.configMaps = put(m.configMaps, c.Namespace+"/"+c.Name, c)
}

// AddSecret adds a secret, or replaces an existing one with the same name. It merges StringData
// into Data, like an API server.
func (m *Memory) AddSecret(s *v1.Secret) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s = s.DeepCopy()
	for key, value := range s.StringData {
		s.Data = put(s.Data, key, []byte(value))
	}
	m.secrets = put(m.secrets, s.Namespace+"/"+s.Name, s)
}

// SetServices replaces all services.
func (m *Memory) SetServices(services ...*v1.Service) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.services = services
}

// SetVolume sets a volume of a pod.
func (m *Memory) SetVolume(pod types.UID, name string, v volume.Mounted) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.volumes = put(m.volumes, string(pod)+"/"+name, v)
}

func put[V any](m map[string]V, key string, value V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}
	m[key] = value
	return m
}

// ConfigMap implements ConfigMaps.
func (m *Memory) ConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.configMaps[namespace+"/"+name]; ok {
		return c, nil
	}
	return nil, fmt.Errorf("configmap %q %w", name, ErrNotFound)
}

// Secret implements Secrets.
func (m *Memory) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, ok := m.secrets[namespace+"/"+name]; ok {
		return s, nil
	}
	return nil, fmt.Errorf("secret %q %w", name, ErrNotFound)
}

// Services implements Services.
func (m *Memory) Services(_ context.Context, namespace string) ([]*v1.Service, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*v1.Service
	for _, s := range m.services {
		if s.Namespace == namespace {
			out = append(out, s)
		}
	}
	return out, nil
}

// Volume implements Volumes.
func (m *Memory) Volume(_ context.Context, pod *v1.Pod, name string) (volume.Mounted, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.volumes[string(pod.UID)+"/"+name]; ok {
		return v, nil
	}
	return volume.Mounted{}, fmt.Errorf("volume %q %w", name, ErrNotFound)
}

// Prepare implements SubPaths. It only joins the paths, which is unsafe with containers that
// place symbolic links.
func (m *Memory) Prepare(_ context.Context, s volume.SubPath) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.prepared == nil {
		m.prepared = map[volume.SubPath]bool{}
	}
	m.prepared[s] = true
	return s.VolumePath + "/" + s.Path, nil
}

// Release implements SubPaths.
func (m *Memory) Release(_ context.Context, s volume.SubPath) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.prepared, s)
	return nil
}
