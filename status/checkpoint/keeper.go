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

// State is how a pod stands to a Keeper.
type State int8

// The states of a pod.
const (
	// Unseen: nobody has asked for its record yet. Nothing is saved of it.
	Unseen State = iota
	// Kept: its record was recalled. What is new is saved.
	Kept
	// Forgotten: its record was removed. Nothing more is saved of it.
	Forgotten
)

// KeeperConfig configures a Keeper. Store is required.
type KeeperConfig struct {
	Store *Store
	// Probes returns the results of a pod's probes that belong into its record:
	// probe.Manager.Results. It must not call the Keeper. nil means
	// that a record has none.
	Probes func(types.UID) probe.Results
	// HeldBack returns what belongs into its record under this name. It must not call
	// the Keeper. nil means that a record has nothing there.
	HeldBack func(types.UID) map[string]string
	// Logger receives which records cannot be used. nil means none.
	Logger *slog.Logger
}

// Keeper keeps the records of the pods that this agent looks after, and of no
// others. Save makes it a sink of package status/writer. Its methods may be called by
// any number of goroutines. Use NewKeeper.
//
// A static pod that its source brings back has the UID that it had before and is
// another pod. So a pod is to be forgotten at the moment when it is stopped because
// no source names it any more, not only when it is gone.
type Keeper struct {
	cfg KeeperConfig

	mu     sync.Mutex
	states map[types.UID]State
}

// NewKeeper checks the configuration.
func NewKeeper(cfg KeeperConfig) (*Keeper, error) {
	if err := fields.Required("checkpoint: KeeperConfig.Store", cfg.Store); err != nil {
		return nil, err
	}
	fields.Default(&cfg.Probes, func(types.UID) probe.Results { return nil })
	fields.Default(&cfg.HeldBack, func(types.UID) map[string]string { return nil })
	fields.Logger(&cfg.Logger)
	return &Keeper{cfg: cfg, states: map[types.UID]State{}}, nil
}

// State returns how a pod stands to the Keeper.
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

// Pods returns the pods that are not Unseen, in no order.
func (k *Keeper) Pods() []types.UID {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(k.states))
}

// Recall begins to keep a pod, and returns what an earlier agent has kept of it, nil
// if there is nothing that can be used. What is lost is in the log.
func (k *Keeper) Recall(uid types.UID) *Record {
	record, err := k.cfg.Store.Load(uid)
	k.setState(uid, Kept)
	switch {
	case err == nil:
		return &record
	case !errors.Is(err, fs.ErrNotExist):
		k.cfg.Logger.Error("what was known of a pod before the agent's start is lost", "podUID", uid, "err", err)
	}
	return nil
}

// Save saves the record of a pod that is Kept: this status, with the results of its
// probes and what is held back. It is a status.SinkFunc. A pod without a folder has nothing that could be
// lost. ctx is not heeded.
func (k *Keeper) Save(_ context.Context, pod *v1.Pod, s *v1.PodStatus) error {
	err := k.cfg.Store.SaveNewest(pod.UID, func() (Record, bool) {
		return Record{Status: *s, Probes: k.cfg.Probes(pod.UID), HeldBack: k.cfg.HeldBack(pod.UID)}, k.State(pod.UID) == Kept
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Forget removes the record of a pod, and keeps nothing more of it.
func (k *Keeper) Forget(uid types.UID) error {
	k.setState(uid, Forgotten)
	return k.cfg.Store.Remove(uid)
}

// Drop lets a pod be Unseen again. Its record stays.
func (k *Keeper) Drop(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.states, uid)
}

// Prune drops all pods but those that are wanted. wanted is called without locks.
func (k *Keeper) Prune(wanted func(types.UID) bool) {
	for _, uid := range k.Pods() {
		if !wanted(uid) {
			k.Drop(uid)
		}
	}
}
