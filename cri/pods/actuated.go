package pods

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/atomicfile"
)

// ActuatedResources are the resources that the runtime was last told for a pod,
// as its spec gave them then. In-place resize (KEP-1287) compares the spec with
// them: what a runtime reports has gone through rounding and lacks requests.
type ActuatedResources struct {
	// Pod are the resources of the pod as a whole (KEP-2837), nil when it has
	// none.
	Pod *v1.ResourceRequirements `json:"pod,omitempty"`
	// Containers are those of each container that was created, by name.
	Containers map[string]v1.ResourceRequirements `json:"containers,omitempty"`
}

// Empty tells that nothing is recorded.
func (r ActuatedResources) Empty() bool { return r.Pod == nil && len(r.Containers) == 0 }

// withContainer returns a copy in which a container has other resources.
func (r ActuatedResources) withContainer(name string, c v1.ResourceRequirements) ActuatedResources {
	containers := maps.Clone(r.Containers)
	if containers == nil {
		containers = map[string]v1.ResourceRequirements{}
	}
	containers[name] = c
	return ActuatedResources{Pod: r.Pod, Containers: containers}
}

// ActuatedStore remembers ActuatedResources across restarts of the agent. What it
// has lost counts as never told, and is told again. A container whose resizePolicy
// is RestartContainer is then restarted only if the runtime reports other values
// than the spec has.
//
// Both methods are safe for concurrent use; for one pod they are called one after
// the other. Neither keeps or changes its argument's maps, nor may a caller change
// those of a result.
type ActuatedStore interface {
	// Load returns what is recorded of a pod, nothing when nothing is. An error
	// is for what cannot be known at the moment; it keeps the pod from being
	// synced.
	Load(uid types.UID) (ActuatedResources, error)
	// Save replaces what is recorded of a pod, and drops it when r is empty.
	// When it returns, the record survives the end of the agent.
	Save(uid types.UID, r ActuatedResources) error
}

// NewActuatedMemory returns a store that lasts as long as the process: for tests,
// and for runtimes whose containers end with the agent.
func NewActuatedMemory() ActuatedStore {
	return &actuatedMemory{pods: map[types.UID]ActuatedResources{}}
}

type actuatedMemory struct {
	mu   sync.Mutex
	pods map[types.UID]ActuatedResources
}

func (s *actuatedMemory) Load(uid types.UID) (ActuatedResources, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[uid], nil
}

func (s *actuatedMemory) Save(uid types.UID, r ActuatedResources) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Empty() {
		delete(s.pods, uid)
	} else {
		s.pods[uid] = r
	}
	return nil
}

// ActuatedFolderConfig configures NewActuatedFolder. Dir is required.
type ActuatedFolderConfig struct {
	// Dir is the directory of the files, which is made when it is missing. Required.
	Dir string
	// Logger is told, once per pod, of a file that is damaged; nil discards.
	Logger *slog.Logger
}

// NewActuatedFolder returns a store that keeps a JSON file per pod in a directory.
// Files are replaced whole: after a crash of the agent or the machine each is the old
// one or the new one. One that was damaged by something else counts as lost, of that
// pod alone, and stays as it is until there is something to record.
func NewActuatedFolder(cfg ActuatedFolderConfig) (ActuatedStore, error) {
	if cfg.Dir == "" {
		return nil, errors.New("pods: ActuatedFolderConfig.Dir is missing")
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("actuated resources: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &actuatedFolder{
		dir: cfg.Dir, log: cfg.Logger,
		known: actuatedMemory{pods: map[types.UID]ActuatedResources{}}, damaged: map[types.UID]bool{},
	}, nil
}

type actuatedFolder struct {
	dir   string
	log   *slog.Logger
	known actuatedMemory // what has been read or written, so that nothing is read twice

	mu      sync.Mutex
	damaged map[types.UID]bool // pods whose file makes no sense
}

// path refuses UIDs that would lead out of the directory.
func (s *actuatedFolder) path(uid types.UID) (string, error) {
	name := string(uid) + ".json"
	if uid == "" || filepath.Base(name) != name {
		return "", fmt.Errorf("actuated resources: %q is no UID", uid)
	}
	return filepath.Join(s.dir, name), nil
}

func (s *actuatedFolder) Load(uid types.UID) (ActuatedResources, error) {
	if r, err := s.known.Load(uid); err != nil || !r.Empty() {
		return r, err
	}
	path, err := s.path(uid)
	if err != nil {
		return ActuatedResources{}, err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ActuatedResources{}, nil
	}
	if err != nil {
		return ActuatedResources{}, fmt.Errorf("actuated resources: %w", err)
	}
	r, err := decodeActuated(data)
	if err != nil {
		s.tell(uid, path, err)
		return ActuatedResources{}, nil
	}
	return r, s.known.Save(uid, r)
}

// tell says that a file is damaged, unless that was said.
func (s *actuatedFolder) tell(uid types.UID, path string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.damaged[uid] {
		return
	}
	s.damaged[uid] = true
	s.log.Error("the record of what the runtime was told of a pod's resources is damaged; it is told again", "uid", uid, "file", path, "err", err)
}

// drop forgets a pod.
func (s *actuatedFolder) drop(uid types.UID, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("actuated resources: %w", err)
	}
	s.mu.Lock()
	delete(s.damaged, uid)
	s.mu.Unlock()
	return s.known.Save(uid, ActuatedResources{})
}

func decodeActuated(data []byte) (r ActuatedResources, err error) {
	err = json.Unmarshal(data, &r)
	return r, err
}

func (s *actuatedFolder) Save(uid types.UID, r ActuatedResources) error {
	path, err := s.path(uid)
	if err != nil {
		return err
	}
	if r.Empty() {
		return s.drop(uid, path)
	}
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("actuated resources of pod %s: %w", uid, err)
	}
	if err := atomicfile.Write(path, data, 0o600); err != nil {
		return fmt.Errorf("actuated resources: %w", err)
	}
	return s.known.Save(uid, r)
}
