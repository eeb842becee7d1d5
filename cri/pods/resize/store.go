package resize

import (
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/fs"
)

// Store remembers what the runtime was last told across restarts of the agent. What it
// has lost counts as never told, and is told again. A container whose resizePolicy
// is RestartContainer is then restarted only if the runtime reports other values
// than the spec has.
//
// Both methods are safe for concurrent use; for one pod they are called one after
// the other. Neither keeps or changes its argument's maps, nor may a caller change
// those of a result.
type Store interface {
	// Load returns what is recorded of a pod, nothing when nothing is. An error
	// is for what cannot be known at the moment; it keeps the pod from being
	// synced.
	Load(uid types.UID) (actions.Actuated, error)
	// Save replaces what is recorded of a pod, and drops it when r is empty.
	// When it returns, the record survives the end of the agent.
	Save(uid types.UID, r actions.Actuated) error
}

// NewMemory returns a store that lasts as long as the process: for tests,
// and for runtimes whose containers end with the agent.
func NewMemory() Store {
	return &memory{pods: map[types.UID]actions.Actuated{}}
}

type memory struct {
	mu   sync.Mutex
	pods map[types.UID]actions.Actuated
}

func (s *memory) Load(uid types.UID) (actions.Actuated, error) { return s.get(uid), nil }

func (s *memory) get(uid types.UID) actions.Actuated {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[uid]
}

func (s *memory) Save(uid types.UID, r actions.Actuated) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Empty() {
		delete(s.pods, uid)
	} else {
		s.pods[uid] = r
	}
	return nil
}

// FolderConfig configures NewFolder. Dir is required.
type FolderConfig struct {
	// Dir is the directory of the files, which is made when it is missing. Required.
	Dir string
	// Logger is told, once per pod, of a file that is damaged; nil discards.
	Logger *slog.Logger
}

// NewFolder returns a store that keeps a JSON file per pod in a directory.
// Files are replaced whole: after a crash of the agent or the machine each is the old
// one or the new one. One that was damaged by something else counts as lost, of that
// pod alone, and stays as it is until there is something to record.
func NewFolder(cfg FolderConfig) (Store, error) {
	if err := fields.Required("resize: FolderConfig.Dir", cfg.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("actuated resources: %w", err)
	}
	fields.Logger(&cfg.Logger)
	return &folder{
		dir: cfg.Dir, log: cfg.Logger,
		known: memory{pods: map[types.UID]actions.Actuated{}}, damaged: map[types.UID]bool{},
	}, nil
}

type folder struct {
	dir   string
	log   *slog.Logger
	known memory // what has been read or written, so that nothing is read twice

	mu      sync.Mutex
	damaged map[types.UID]bool // pods whose file makes no sense
}

// path refuses UIDs that would lead out of the directory.
func (s *folder) path(uid types.UID) (string, error) {
	name := string(uid) + ".json"
	if uid == "" || filepath.Base(name) != name {
		return "", fmt.Errorf("actuated resources: %q is no UID", uid)
	}
	return filepath.Join(s.dir, name), nil
}

func (s *folder) Load(uid types.UID) (actions.Actuated, error) {
	if r := s.known.get(uid); !r.Empty() {
		return r, nil
	}
	path, err := s.path(uid)
	if err != nil {
		return actions.Actuated{}, err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, iofs.ErrNotExist) {
		return actions.Actuated{}, nil
	}
	if err != nil {
		return actions.Actuated{}, fmt.Errorf("actuated resources: %w", err)
	}
	r, err := decodeActuated(data)
	if err != nil {
		s.tell(uid, path, err)
		return actions.Actuated{}, nil
	}
	return r, s.known.Save(uid, r)
}

// tell says that a file is damaged, unless that was said.
func (s *folder) tell(uid types.UID, path string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.damaged[uid] {
		return
	}
	s.damaged[uid] = true
	s.log.Error("the record of what the runtime was told of a pod's resources is damaged; it is told again", "podUID", uid, "file", path, "err", err)
}

// drop forgets a pod.
func (s *folder) drop(uid types.UID, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return fmt.Errorf("actuated resources: %w", err)
	}
	s.mu.Lock()
	delete(s.damaged, uid)
	s.mu.Unlock()
	return s.known.Save(uid, actions.Actuated{})
}

func decodeActuated(data []byte) (r actions.Actuated, err error) {
	err = json.Unmarshal(data, &r)
	return r, err
}

func (s *folder) Save(uid types.UID, r actions.Actuated) error {
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
	if err := fs.WriteAtomic(path, data, 0o600); err != nil {
		return fmt.Errorf("actuated resources: %w", err)
	}
	return s.known.Save(uid, r)
}
