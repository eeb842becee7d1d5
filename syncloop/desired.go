package syncloop

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
)

// Desired is the index of the desired pods by UID and full name, with the mirror pods of static
// pods. The zero value is empty and ready for use. It is safe for concurrent use. The pods in it
// are shared and must not be changed.
type Desired struct {
	mu      sync.RWMutex
	pods    podTable
	mirrors podTable
}

// podTable indexes pods by UID and by full name, in the order of their creation. The pod stored
// last represents its name.
type podTable struct {
	byUID  map[types.UID]*v1.Pod
	byName map[string][]*v1.Pod // the last one represents the name
	sorted []*v1.Pod
}

func (t *podTable) set(pod *v1.Pod) {
	if t.byUID == nil {
		t.byUID, t.byName = map[types.UID]*v1.Pod{}, map[string][]*v1.Pod{}
	}
	name := podfacts.FullName(pod)
	old := t.byUID[pod.UID]
	if old != nil && podfacts.FullName(old) != name {
		t.remove(pod.UID)
		old = nil
	}
	t.byUID[pod.UID] = pod
	t.unsort(old)
	at, _ := slices.BinarySearchFunc(t.sorted, pod, compareCreation)
	t.sorted = slices.Insert(t.sorted, at, pod)
	if i := slices.Index(t.byName[name], old); old != nil && i >= 0 {
		t.byName[name][i] = pod // a newer version does not take the name from a successor
		return
	}
	t.byName[name] = append(t.byName[name], pod)
}

// remove drops a pod. Another pod with its name then represents the name: a successor may be
// stored before its predecessor is removed.
func (t *podTable) remove(uid types.UID) {
	pod := t.byUID[uid]
	if pod == nil {
		return
	}
	delete(t.byUID, uid)
	t.unsort(pod)
	name := podfacts.FullName(pod)
	others := slices.DeleteFunc(t.byName[name], func(other *v1.Pod) bool { return other == pod })
	if len(others) == 0 {
		delete(t.byName, name)
		return
	}
	t.byName[name] = others
}

func (t *podTable) unsort(pod *v1.Pod) {
	if pod == nil {
		return
	}
	if at, found := slices.BinarySearchFunc(t.sorted, pod, compareCreation); found {
		t.sorted = slices.Delete(t.sorted, at, at+1)
	}
}

// lookup returns the pod that represents a full name, or nil.
func (t *podTable) lookup(name string) *v1.Pod {
	if pods := t.byName[name]; len(pods) > 0 {
		return pods[len(pods)-1]
	}
	return nil
}

func (t *podTable) list() []*v1.Pod { return slices.Clone(t.sorted) }

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

// Remove drops a pod or mirror pod. Other pods with its name stay.
func (d *Desired) Remove(pod *v1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pods.remove(pod.UID)
	d.mirrors.remove(pod.UID)
}

// Pods returns all pods except mirror pods, in the order of their creation.
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

// LeftoverMirrors returns the mirror pods without a static pod.
func (d *Desired) LeftoverMirrors() []*v1.Pod {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.DeleteFunc(d.mirrors.list(), func(mirror *v1.Pod) bool {
		return d.pods.lookup(podfacts.FullName(mirror)) != nil
	})
}

// Get returns the pod with a UID, or nil. It does not return mirror pods.
func (d *Desired) Get(uid types.UID) *v1.Pod {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.pods.byUID[uid]
}

// ByName returns the pod with a name and namespace, or nil. For a static pod it returns the static
// pod, never its mirror pod.
func (d *Desired) ByName(namespace, name string) *v1.Pod {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.pods.lookup(name + "_" + namespace)
}

// MirrorOf returns the mirror pod of a static pod, or nil.
func (d *Desired) MirrorOf(pod *v1.Pod) *v1.Pod {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if !podfacts.IsStatic(pod) {
		return nil
	}
	return d.mirrors.lookup(podfacts.FullName(pod))
}

func (d *Desired) has(uid types.UID) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.pods.byUID[uid] != nil || d.mirrors.byUID[uid] != nil
}

// Translate returns the UID of the static pod for the UID of its mirror pod, and any other UID
// unchanged.
func (d *Desired) Translate(uid types.UID) types.UID {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if mirror := d.mirrors.byUID[uid]; mirror != nil {
		if pod := d.pods.lookup(podfacts.FullName(mirror)); pod != nil {
			return pod.UID
		}
	}
	return uid
}
