package podsyncer

import (
	"cmp"
	"log/slog"
	"os"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/cri/pods/podfiles"
	"github.com/podwright/podwright/syncloop"
)

// Owner returns the owner of this agent's pods, for other parts that list containers: statistics,
// log rotation. With Config.AdoptUnlabelled it includes the adopted pods.
func (s *Syncer) Owner() cri.Owner { return s.cfg.Pods.Owner }

// lockOwner locks the owner's name on the runtime, if the runtime has an endpoint. Otherwise it
// returns nil.
func (s *Syncer) lockOwner() (*os.File, error) {
	runtime, ok := s.cfg.Pods.Runtime.(interface{ Endpoint() string })
	if !ok {
		return nil, nil
	}
	return s.cfg.Pods.Owner.Lock(runtime.Endpoint())
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

// drop forgets a removed pod. Its log directory, which stores the adoption, was removed.
func (a *adopter) drop(uid types.UID) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.adopted, uid)
}
