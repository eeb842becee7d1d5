package syncloop

import (
	"cmp"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
)

// Desired is the index of the pods that should be there: by UID, by full name,
// and static pods together with their mirror pods. Its zero value is empty and
// ready for use. It is safe for concurrent use; the pods in it are shared and
// must never be changed.
type Desired struct {
	mu      sync.RWMutex
	pods    podTable
	mirrors podTable
}

// podTable holds pods by UID, and by full name the one that was stored last.
type podTable struct {
	byUID  map[types.UID]*v1.Pod
	byName map[string]*v1.Pod
}

func (t *podTable) set(pod *v1.Pod) {
	if t.byUID == nil {
		t.byUID, t.byName = map[types.UID]*v1.Pod{}, map[string]*v1.Pod{}
	}
	if old := t.byUID[pod.UID]; old != nil && podfacts.FullName(old) != podfacts.FullName(pod) {
		t.remove(pod.UID)
	}
	t.byUID[pod.UID] = pod
	t.byName[podfacts.FullName(pod)] = pod
}

// remove drops a pod. Its name goes to another pod that has it, if there is one:
// a successor may be stored before its predecessor is removed.
func (t *podTable) remove(uid types.UID) {
	pod := t.byUID[uid]
	if pod == nil {
		return
	}
	delete(t.byUID, uid)
	name := podfacts.FullName(pod)
	if t.byName[name].UID != uid {
		return
	}
	delete(t.byName, name)
	for _, other := range t.byUID {
		if podfacts.FullName(other) == name {
			t.byName[name] = other
			return
		}
	}
}

// list returns the pods in the order of their creation.
func (t *podTable) list() []*v1.Pod {
	pods := make([]*v1.Pod, 0, len(t.byUID))
	for _, pod := range t.byUID {
		pods = append(pods, pod)
	}
	sortByCreation(pods)
	return pods
}

func sortByCreation(pods []*v1.Pod) {
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
}

// Set stores the newest version of a pod or mirror pod.
func (d *Desired) Set(pod *v1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if podfacts.IsMirror(pod) {
		d.pods.remove(pod.UID)
		d.mirrors.set(pod)
		return
	}
	d.mirrors.remove(pod.UID)
	d.pods.set(pod)
}

// Remove drops a pod or mirror pod. Another one of the same name stays.
func (d *Desired) Remove(pod *v1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pods.remove(pod.UID)
	d.mirrors.remove(pod.UID)
}

// Pods returns all pods but mirror pods, in the order of their creation.
func (d *Desired) Pods() []*v1.Pod {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.pods.list()
}

// Mirrors returns all mirror pods.
func (d *Desired) Mirrors() []*v1.Pod {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.mirrors.list()
}

// OrphanMirrors returns the mirror pods without a static pod.
func (d *Desired) OrphanMirrors() []*v1.Pod {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.DeleteFunc(d.mirrors.list(), func(mirror *v1.Pod) bool {
		return d.pods.byName[podfacts.FullName(mirror)] != nil
	})
}

// Get returns the pod with a UID, or nil. It finds no mirror pods.
func (d *Desired) Get(uid types.UID) *v1.Pod {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.pods.byUID[uid]
}

// ByName returns the pod with a name and namespace, or nil. It finds no mirror
// pods: of a static pod it returns the static pod itself.
func (d *Desired) ByName(namespace, name string) *v1.Pod {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.pods.byName[name+"_"+namespace]
}

// MirrorOf returns the mirror pod of a static pod, or nil.
func (d *Desired) MirrorOf(pod *v1.Pod) *v1.Pod {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if !podfacts.IsStatic(pod) {
		return nil
	}
	return d.mirrors.byName[podfacts.FullName(pod)]
}

// Translate returns the UID of the pod that a UID stands for: for that of a
// mirror pod its static pod's, for others, unknown ones included, the same.
func (d *Desired) Translate(uid types.UID) types.UID {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if mirror := d.mirrors.byUID[uid]; mirror != nil {
		if pod := d.pods.byName[podfacts.FullName(mirror)]; pod != nil {
			return pod.UID
		}
	}
	return uid
}
