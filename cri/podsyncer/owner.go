package podsyncer

import (
	"cmp"
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/cri/pods/podfiles"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop"
)

// Owner returns the owner of this agent's pods, for stats.CollectorConfig.Owner and
// logs.RotatorConfig.Owner. With Config.AdoptUnlabelled it includes the adopted pods, which
// Config.Pods.Owner does not.
func (s *Syncer) Owner() cri.Owner { return s.cfg.Pods.Owner }

// located is a runtime behind an endpoint.
type located interface{ Endpoint() string }

var _ located = (*cri.RuntimeClient)(nil)

// lockOwner locks the owner's name on the runtime, if the runtime has an endpoint. Otherwise it
// returns nil.
func (s *Syncer) lockOwner() (*cri.OwnerLock, error) {
	runtime, ok := s.cfg.Pods.Runtime.(located)
	if !ok {
		return nil, nil
	}
	lock, err := s.cfg.Pods.Owner.Lock(runtime.Endpoint(), s.cfg.LockFolder)
	if err == nil && lock.Fallback {
		s.log.Warn("the folder of the runtime's socket is not writable; agents with the same owner and another temporary folder are not detected: set LockFolder", "lock", lock.Name())
	}
	return lock, err
}

// adopter finds the pods without an owner's label that this agent has adopted. A file in a pod's
// log directory stores the adoption, until the pod is removed.
type adopter struct {
	files   podfiles.Layout
	desired *syncloop.Desired
	log     *slog.Logger

	mu      sync.Mutex
	adopted map[types.UID]bool
}

// newAdopter reads the earlier adoptions.
func newAdopter(files podfiles.Layout, desired *syncloop.Desired, log *slog.Logger) (*adopter, error) {
	a := &adopter{files: files, desired: desired, log: log, adopted: map[types.UID]bool{}}
	dirs, err := files.PodLogDirs()
	for uid := range dirs {
		a.adopted[uid] = true
	}
	return a, err
}

func (s *Syncer) adoptUnlabelled() (err error) {
	cfg := &s.cfg.Pods
	s.adopter, err = newAdopter(podfiles.Layout{Owner: cfg.Owner, LogRoot: cmp.Or(cfg.LogRoot, "/var/log/pods")}, s.desired, s.log)
	cfg.Owner.Adopts = s.adopter.adopts
	return err
}

// adopts reports whether a pod without a label is adopted, and adopts a desired one.
func (a *adopter) adopts(podUID string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	uid := types.UID(podUID)
	if a.adopted[uid] {
		return true
	}
	pod := a.desired.Get(uid)
	if pod == nil {
		return false
	}
	identity := labels.Pod{UID: uid, Name: pod.Name, Namespace: pod.Namespace}
	if err := a.files.AdoptLogDir(identity); err != nil {
		a.log.Error("cannot adopt a pod; trying again", "pod", identity, "err", err)
		return false
	}
	a.log.Info("adopting a pod that had no owner", "pod", identity, "owner", a.files.Owner.Name)
	a.adopted[uid] = true
	return true
}

// mayAdopt makes the first sync of a pod observe the runtime anew: an observation from before the
// pod was desired lacks the pod that this agent adopts.
func (s *Syncer) mayAdopt(uid types.UID) {
	if s.adopter != nil && s.records.State(uid) != checkpoint.StateKept {
		s.observer.change(uid, func() bool { return true })
	}
}

// drop forgets a removed pod. Its log directory, which stores the adoption, was removed.
func (a *adopter) drop(uid types.UID) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.adopted, uid)
}
