package resize

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/actions"
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
// and for runtimes whose containers end with the agent. Package allocation has a
// store on the disk.
func NewMemory() Store {
	return &memory{pods: map[types.UID]actions.Actuated{}}
}

type memory struct {
	mu   sync.Mutex
	pods map[types.UID]actions.Actuated
}

func (s *memory) Load(uid types.UID) (actions.Actuated, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[uid], nil
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
