package apitest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

type key struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

func (k key) group() schema.GroupResource { return k.resource.GroupResource() }

// change is one entry of the history for watches.
type change struct {
	version  int64
	kind     watch.EventType
	key      key
	was, now Object // nil if the object did not exist before or after
}

// table contains the server's objects. Server.mu guards it. Objects in it never change.
type table struct {
	objects map[key]Object
	version int64
	uids    int
	history []change
	// forgotten is the newest version without history.
	forgotten int64
	changed   chan struct{}
}

// newTable starts at a version above 0, because 0 means any version to a watch.
func newTable() table {
	return table{objects: map[key]Object{}, version: 1000, changed: make(chan struct{})}
}

// put stores an object as the newest version, and returns the stored object.
func (t *table) put(k key, obj Object) Object {
	obj = obj.DeepCopyObject().(Object)
	was := t.objects[k]
	kind := watch.Added
	if was != nil {
		kind = watch.Modified
		obj.SetUID(was.GetUID())
		obj.SetCreationTimestamp(was.GetCreationTimestamp())
	} else {
		t.uids++
		if obj.GetUID() == "" {
			obj.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", t.uids)))
		}
		if at := obj.GetCreationTimestamp(); at.IsZero() {
			obj.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
		}
	}
	obj.SetNamespace(k.namespace)
	obj.SetName(k.name)
	t.record(change{kind: kind, key: k, was: was, now: obj})
	t.objects[k] = obj
	return obj
}

func (t *table) remove(k key) {
	if was := t.objects[k]; was != nil {
		delete(t.objects, k)
		t.record(change{kind: watch.Deleted, key: k, was: was})
	}
}

func (t *table) record(c change) {
	t.version++
	c.version = t.version
	if c.now != nil {
		c.now.SetResourceVersion(strconv.FormatInt(t.version, 10))
	}
	t.history = append(t.history, c)
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *table) create(k key, obj Object) (Object, error) {
	if t.objects[k] != nil {
		return nil, apierrors.NewAlreadyExists(k.group(), k.name)
	}
	return t.put(k, obj), nil
}

func (t *table) get(k key) (Object, error) {
	if obj := t.objects[k]; obj != nil {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(k.group(), k.name)
}

// replace changes an existing object, if the UID and the resource version match.
func (t *table) replace(k key, obj Object) (Object, error) {
	was, err := t.get(k)
	if err != nil {
		return nil, err
	}
	if uid := obj.GetUID(); uid != "" && uid != was.GetUID() {
		return nil, apierrors.NewConflict(k.group(), k.name, fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", uid, was.GetUID()))
	}
	if v := obj.GetResourceVersion(); v != "" && v != was.GetResourceVersion() {
		return nil, apierrors.NewConflict(k.group(), k.name, fmt.Errorf("the object has been modified"))
	}
	return t.put(k, obj), nil
}

// erase deletes an object with the options. A pod gets its grace period.
func (t *table) erase(k key, o *metav1.DeleteOptions) (Object, error) {
	was, err := t.get(k)
	if err != nil {
		return nil, err
	}
	if p := o.Preconditions; p != nil && p.UID != nil && *p.UID != was.GetUID() {
		return nil, apierrors.NewConflict(k.group(), k.name, fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", *p.UID, was.GetUID()))
	}
	pod, isPod := was.(*v1.Pod)
	if !isPod || pod.Spec.NodeName == "" {
		t.remove(k)
		return was, nil
	}
	grace := int64(30)
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		grace = *g
	}
	if o.GracePeriodSeconds != nil {
		grace = *o.GracePeriodSeconds
	}
	if grace == 0 {
		t.remove(k)
		return was, nil
	}
	pod = pod.DeepCopy()
	at := metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second).Truncate(time.Second))
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, &grace
	return t.put(k, pod), nil
}

func matches(obj Object, selector map[string]string) bool {
	for field, want := range selector {
		have := ""
		switch field {
		case "metadata.name":
			have = obj.GetName()
		case "metadata.namespace":
			have = obj.GetNamespace()
		case "spec.nodeName":
			if pod, ok := obj.(*v1.Pod); ok {
				have = pod.Spec.NodeName
			}
		}
		if have != want {
			return false
		}
	}
	return true
}

func parseSelector(text string) map[string]string {
	out := map[string]string{}
	for _, term := range strings.Split(text, ",") {
		if field, value, ok := strings.Cut(term, "="); ok {
			out[field] = value
		}
	}
	return out
}
