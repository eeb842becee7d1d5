package checkpoint

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/probe"
)

// State is the state of a pod in a Keeper.
type State int8

// The states of a pod.
const (
	// StateUnseen means that the pod's record was not recalled yet. Save has no effect.
	StateUnseen State = iota
	// StateKept means that the pod's record was recalled. Save stores changes.
	StateKept
	// StateForgotten means that the pod's record was removed. Save has no effect.
	StateForgotten
)

// KeeperConfig configures a Keeper. Store is required.
type KeeperConfig struct {
	Store *Store
	// Probes returns the probe results for a pod's record: probe.Manager.Results. It must not
	// call the Keeper. Optional: without it records have no probe results.
	Probes func(types.UID) probe.Results
	// HeldBack returns Record.HeldBack for a pod. It must not call the Keeper. Optional: without
	// it records have none.
	HeldBack func(types.UID) map[string]string
	// Logger receives unusable records, and the first pod without a folder. Default: no log.
	Logger *slog.Logger
}

// Keeper saves the records of this agent's pods only. Its method Save is a sink of package
// status/writer. It is safe for concurrent use. Use NewKeeper.
//
// A static pod that its source adds again is another pod with the same UID. So forget a pod at
// the moment when it is stopped because no source names it any longer, not only after its end.
type Keeper struct {
	cfg KeeperConfig

	noFolder sync.Once // a pod that runs has no folder

	mu     sync.Mutex
	states map[types.UID]State
}

// NewKeeper returns a Keeper. It returns an error if Store is nil.
func NewKeeper(cfg KeeperConfig) (*Keeper, error) {
	if err := fields.Required("checkpoint: KeeperConfig.Store", cfg.Store); err != nil {
		return nil, err
	}
	fields.Default(&cfg.Probes, func(types.UID) probe.Results { return nil })
	fields.Default(&cfg.HeldBack, func(types.UID) map[string]string { return nil })
	fields.Logger(&cfg.Logger)
	return &Keeper{cfg: cfg, states: map[types.UID]State{}}, nil
}

// State returns the state of a pod.
func (k *Keeper) State(uid types.UID) State {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.states[uid]
}

func (k *Keeper) setState(uid types.UID, s State) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.states[uid] = s
}

// Pods returns the pods that are not StateUnseen, in no order.
func (k *Keeper) Pods() []types.UID {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(k.states))
}

// Recall sets a pod to StateKept, and returns its stored record, or nil without a usable one. It logs
// a lost record.
func (k *Keeper) Recall(uid types.UID) *Record {
	record, err := k.cfg.Store.Load(uid)
	k.setState(uid, StateKept)
	switch {
	case err == nil:
		return &record
	case !errors.Is(err, fs.ErrNotExist):
		k.cfg.Logger.Error("Checkpoint of pod lost", "podUID", uid, "err", err)
	}
	return nil
}

// Save stores the record of a pod in StateKept: this status, its probe results and its held-back
// containers. It is a status.SinkFunc. It returns nil for a pod without a folder, which has no
// state to lose before its containers run; the first pod that runs without one is logged. It
// ignores its context.
func (k *Keeper) Save(_ context.Context, pod *v1.Pod, s *v1.PodStatus) error {
	err := k.cfg.Store.saveNewest(pod.UID, func() (Record, bool) {
		return Record{Status: *s, Probes: k.cfg.Probes(pod.UID), HeldBack: k.cfg.HeldBack(pod.UID)}, k.State(pod.UID) == StateKept
	})
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if slices.ContainsFunc(s.ContainerStatuses, func(c v1.ContainerStatus) bool { return c.State.Running != nil }) {
		k.noFolder.Do(func() {
			k.cfg.Logger.Warn("Checkpoint of pod not saved: the folder of Config.File does not exist", "podUID", pod.UID, "err", err)
		})
	}
	return nil
}

// Forget removes the record of a pod. Later calls of Save have no effect until the next Recall. The
// Keeper remembers the pod until Drop or Prune.
func (k *Keeper) Forget(uid types.UID) error {
	k.setState(uid, StateForgotten)
	return k.cfg.Store.Remove(uid)
}

// Drop sets a pod to StateUnseen. Its record stays.
func (k *Keeper) Drop(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.states, uid)
}

// Prune calls Drop for all pods that wanted rejects, so that the Keeper does not grow. wanted is
// called without locks.
func (k *Keeper) Prune(wanted func(types.UID) bool) {
	for _, uid := range k.Pods() {
		if !wanted(uid) {
			k.Drop(uid)
		}
	}
}
