package resize

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/pleg/observed"
)

// Record is a Store's record of one pod during an action on the pod. Without a store it records
// no resources. It is not safe for concurrent use.
type Record struct {
	store    Store
	uid      types.UID
	actuated actions.Actuated
}

// Load reads the resources last applied to a pod. If it fails, the caller cannot decide about
// resizes. store may be nil.
func Load(store Store, uid types.UID) (*Record, error) {
	r := &Record{store: store, uid: uid}
	if store == nil {
		return r, nil
	}
	var err error
	if r.actuated, err = store.Load(uid); err != nil {
		return nil, fmt.Errorf("load actuated resources: %w", err)
	}
	return r, nil
}

// Actuated returns the resources last applied, or nil without a store.
func (r *Record) Actuated() *actions.Actuated {
	if r.store == nil {
		return nil
	}
	return &r.actuated
}

// NoteContainer records the resources of a regular or init container before its creation, so that
// the record is complete if the agent dies. Applying recorded resources again is harmless.
// Without resources in container and pod there is no write.
func (r *Record) NoteContainer(pod *v1.Pod, c *v1.Container) error {
	if r.store == nil {
		return nil
	}
	record, recorded := r.actuated.Containers[c.Name]
	if sameRequirements(record, c.Resources) && (recorded || pod.Spec.Resources == nil) {
		return nil
	}
	return r.setContainer(c.Name, c.Resources)
}

// NoteNew records the resources of containers that have neither a record nor an instance. They are
// part of the pod's cgroup, which was created with them: without a record, a change before the
// first start of the container would be lost. A pod without any resources needs no record, because
// its resources cannot change.
func (r *Record) NoteNew(pod *v1.Pod, seen *observed.Pod) error {
	if r.store == nil || !hasResources(pod) {
		return nil
	}
	now := r.actuated
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if _, recorded := now.Containers[list[i].Name]; !recorded && seen.Newest(list[i].Name) == nil {
				now = withContainer(now, list[i].Name, list[i].Resources)
			}
		}
	}
	if len(now.Containers) == len(r.actuated.Containers) {
		return nil
	}
	return r.save(now)
}

func hasResources(pod *v1.Pod) bool {
	has := func(c v1.Container) bool { return len(c.Resources.Requests)+len(c.Resources.Limits) > 0 }
	return pod.Spec.Resources != nil || slices.ContainsFunc(pod.Spec.Containers, has) || slices.ContainsFunc(pod.Spec.InitContainers, has)
}

// noteStopped records the resources of containers that do not run, once the pod's cgroup has them.
func (r *Record) noteStopped(pod *v1.Pod, names []string) error {
	now := r.actuated
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if slices.Contains(names, list[i].Name) {
				now = withContainer(now, list[i].Name, list[i].Resources)
			}
		}
	}
	return r.save(now)
}

// NotePod records the pod-level resources before the pod's first sandbox is created. Later changes
// are resizes.
func (r *Record) NotePod(pod *v1.Pod) error {
	if r.store == nil || r.actuated.Pod != nil || samePodRequirements(nil, pod.Spec.Resources) {
		return nil
	}
	return r.setPod(pod.Spec.Resources)
}

func (r *Record) setContainer(name string, resources v1.ResourceRequirements) error {
	return r.save(withContainer(r.actuated, name, resources))
}

func (r *Record) setPod(resources *v1.ResourceRequirements) error {
	return r.save(actions.Actuated{Containers: r.actuated.Containers, Pod: resources})
}

func (r *Record) save(a actions.Actuated) error {
	if err := r.store.Save(r.uid, a); err != nil {
		return fmt.Errorf("checkpoint of resources: %w", err)
	}
	r.actuated = a
	return nil
}

// withContainer returns a copy with other resources for one container.
func withContainer(a actions.Actuated, name string, c v1.ResourceRequirements) actions.Actuated {
	containers := maps.Clone(a.Containers)
	if containers == nil {
		containers = map[string]v1.ResourceRequirements{}
	}
	containers[name] = c
	return actions.Actuated{Pod: a.Pod, Containers: containers}
}

func samePodRequirements(a, b *v1.ResourceRequirements) bool {
	var zero v1.ResourceRequirements
	if a == nil {
		a = &zero
	}
	if b == nil {
		b = &zero
	}
	return sameRequirements(*a, *b)
}

func sameRequirements(a, b v1.ResourceRequirements) bool {
	return sameQuantities(a.Requests, b.Requests) && sameQuantities(a.Limits, b.Limits)
}

func sameQuantities(a, b v1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}

// Store keeps the resources last applied in the runtime across restarts of the agent. Lost
// resources count as never applied, and are applied again. A container whose resizePolicy is
// RestartContainer is then restarted only if the runtime reports values that differ from the
// spec.
//
// Store must be safe for concurrent use. Calls for one pod do not overlap. Implementations must
// not keep or change the maps of an argument, and callers must not change the maps of a result.
type Store interface {
	// Load returns the record of a pod, or an empty one. On error the pod is not synced.
	Load(uid types.UID) (actions.Actuated, error)
	// Save replaces the record of a pod, or removes it if r is empty. When it returns, the record
	// survives the end of the agent.
	Save(uid types.UID, r actions.Actuated) error
}

// NewMemory returns a store in memory, for tests and for runtimes whose containers end with the
// agent. Package allocation has a store on the disk.
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
