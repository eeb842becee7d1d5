package script

import (
	"context"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

// keptGone is how many removed objects are remembered, for calls that come again
// and events that come late.
const keptGone = 1024

// identities knows which container or sandbox an ID stands for. It learns from
// requests and replies, and asks the runtime about IDs that it has not seen made.
type identities struct {
	runtime interface {
		cri.ContainerReader
		cri.SandboxReader
	}

	mu      sync.Mutex
	known   map[string]identity
	members map[string]map[string]struct{} // IDs of a sandbox's containers that are not gone
	gone    []string                       // removed IDs, oldest first
}

// identity is an object and the sandbox it belongs to.
type identity struct {
	object  Object
	sandbox string
	gone    bool
}

func newIdentities(runtime cri.RuntimeService) *identities {
	return &identities{runtime: runtime, known: map[string]identity{}, members: map[string]map[string]struct{}{}}
}

// object tells what a request is about. What cannot be found out is left empty.
func (ids *identities) object(ctx context.Context, a about) Object {
	switch {
	case a.config != nil:
		pod := podObject(a.pod.GetMetadata())
		if a.pod == nil {
			pod = ids.sandbox(ctx, a.sandbox)
		}
		return containerObject(a.config.GetMetadata(), a.config.GetImage(), pod)
	case a.container != "":
		return ids.container(ctx, a.container)
	case a.sandbox != "":
		return ids.sandbox(ctx, a.sandbox)
	case a.image != "":
		o := podObject(a.pod.GetMetadata())
		o.Kind, o.Attempt, o.Image = AnyKind, 0, a.image
		return o
	case a.pod != nil:
		return podObject(a.pod.GetMetadata())
	}
	return Object{}
}

// learn takes note of a call that has succeeded.
func (ids *identities) learn(x *exchange) {
	switch x.call {
	case "RunPodSandbox":
		id, _ := x.reply().(string)
		ids.put(id, identity{object: podObject(x.about.pod.GetMetadata()), sandbox: id})
	case "CreateContainer":
		id, _ := x.reply().(string)
		pod := podObject(x.about.pod.GetMetadata())
		if made, ok := ids.get(x.about.sandbox); ok {
			pod = made.object
		}
		o := containerObject(x.about.config.GetMetadata(), x.about.config.GetImage(), pod)
		ids.put(id, identity{object: o, sandbox: x.about.sandbox})
	case "RemoveContainer":
		ids.remove(x.about.container)
	case "RemovePodSandbox":
		ids.remove(x.about.sandbox)
	}
}

func (ids *identities) get(id string) (identity, bool) {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	found, ok := ids.known[id]
	return found, ok
}

func (ids *identities) put(id string, what identity) {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	ids.known[id] = what
	if id == what.sandbox {
		return
	}
	if ids.members[what.sandbox] == nil {
		ids.members[what.sandbox] = map[string]struct{}{}
	}
	ids.members[what.sandbox][id] = struct{}{}
}

// remove keeps an object, and a sandbox's containers, only among the latest that
// were removed.
func (ids *identities) remove(id string) {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	for member := range ids.members[id] {
		ids.forget(member)
	}
	delete(ids.members, id)
	ids.forget(id)
}

func (ids *identities) forget(id string) {
	what, ok := ids.known[id]
	if !ok || what.gone {
		return
	}
	what.gone = true
	ids.known[id] = what
	delete(ids.members[what.sandbox], id)
	ids.gone = append(ids.gone, id)
	if len(ids.gone) > keptGone {
		delete(ids.known, ids.gone[0])
		ids.gone = ids.gone[1:]
	}
}

func (ids *identities) container(ctx context.Context, id string) Object {
	if what, ok := ids.get(id); ok {
		return what.object
	}
	list, err := ids.runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{Id: id})
	if err != nil || len(list) != 1 {
		return Object{}
	}
	c := list[0]
	pod := ids.sandbox(ctx, c.GetPodSandboxId())
	o := containerObject(c.GetMetadata(), c.GetImage(), pod)
	if pod.Kind != AnyKind {
		ids.put(id, identity{object: o, sandbox: c.GetPodSandboxId()})
	}
	return o
}

func (ids *identities) sandbox(ctx context.Context, id string) Object {
	if what, ok := ids.get(id); ok || id == "" {
		return what.object
	}
	list, err := ids.runtime.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{Id: id})
	if err != nil || len(list) != 1 {
		return Object{}
	}
	o := podObject(list[0].GetMetadata())
	ids.put(id, identity{object: o, sandbox: id})
	return o
}

// event tells what an event is about. It asks early, since the last event of a
// container does not describe it any more, and since a status has the image as the
// runtime names it.
func (ids *identities) event(ctx context.Context, e *runtimeapi.ContainerEventResponse) Object {
	what, ok := ids.get(e.GetContainerId())
	if !ok {
		what = eventIdentity(e)
		if what.object.Kind == ContainerKind {
			if asked := ids.container(ctx, e.GetContainerId()); asked.Kind == ContainerKind {
				what.object = asked
			}
		}
	}
	if e.GetContainerEventType() == runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT {
		ids.remove(e.GetContainerId())
	}
	return what.object
}

func eventIdentity(e *runtimeapi.ContainerEventResponse) identity {
	sandbox := e.GetPodSandboxStatus()
	pod := podObject(sandbox.GetMetadata())
	if sandbox.GetId() == e.GetContainerId() {
		return identity{object: pod, sandbox: sandbox.GetId()}
	}
	o := containerObject(nil, nil, pod)
	for _, c := range e.GetContainersStatuses() {
		if c.GetId() == e.GetContainerId() {
			o = containerObject(c.GetMetadata(), c.GetImage(), pod)
		}
	}
	return identity{object: o, sandbox: sandbox.GetId()}
}

func podObject(m *runtimeapi.PodSandboxMetadata) Object {
	if m == nil {
		return Object{}
	}
	return Object{Kind: SandboxKind, Namespace: m.GetNamespace(), Pod: m.GetName(), UID: m.GetUid(), Attempt: m.GetAttempt()}
}

// containerObject describes a container of the pod of another object.
func containerObject(m *runtimeapi.ContainerMetadata, image *runtimeapi.ImageSpec, pod Object) Object {
	pod.Kind, pod.Container, pod.Attempt, pod.Image = ContainerKind, m.GetName(), m.GetAttempt(), imageName(image)
	return pod
}
