package actions

import (
	"fmt"
	"strings"

	"github.com/podwright/podwright/pleg/observed"
)

// KillReason says why a container is stopped. Probe-level grace periods depend
// on it.
type KillReason string

// The reasons to stop a container. The zero value is any other reason.
const (
	KillLivenessProbe KillReason = "LivenessProbe"
	KillStartupProbe  KillReason = "StartupProbe"
)

// ContainerKill is a container to stop.
type ContainerKill struct {
	ID   observed.ContainerID
	Name string
	// Reason is "" unless a probe asked for it.
	Reason KillReason
	// Message is for the event.
	Message string
}

// Update is a running container whose resources change in place (KEP-1287).
type Update struct {
	ID   observed.ContainerID
	Name string
	// Init tells that Index points into Pod.Spec.InitContainers, else into
	// Pod.Spec.Containers.
	Init  bool
	Index int
	// Want is what the spec has, Have what was last applied. A limit that the
	// spec no longer has is kept: it is the same in both.
	Want, Have Amounts
}

// Actions is what brings a pod closer to its spec. Nothing to do is the zero
// value apart from SandboxID, Attempt and Explanation.
//
// They are meant to be done in this order: KillPod or else Kill and Reset;
// Remove and PruneInit; CreateSandbox; StartEphemeral; StartInit; the updates;
// StartRegular.
type Actions struct {
	// KillPod stops all containers and all sandboxes.
	KillPod bool
	// CreateSandbox starts a new sandbox, after KillPod. Without it KillPod
	// means that the pod has come to its end.
	CreateSandbox bool
	// SandboxID is the current sandbox, or the one that is replaced; "" when
	// nothing is kept of it.
	SandboxID string
	// Attempt is the attempt number of the new sandbox, or of the current one.
	Attempt uint32

	// Kill are containers to stop. With KillPod, which stops them all, they are
	// the ones that have a reason of their own.
	Kill []ContainerKill
	// Remove are containers that were created but never started: an agent died
	// in between, or the runtime refused. They are replaced.
	Remove []observed.Container
	// Reset are all instances of all containers, when they are restarted
	// together (KEP-5532): each is stopped without grace if it has not exited,
	// and removed with its logs kept, in this order, the end that triggered it
	// last, so that what is left tells that it is not finished. Stop at the first
	// error. Nothing else is to be done beside it.
	Reset []observed.Container
	// PruneInit are instances of init containers that nothing depends on any
	// more: with a new sandbox all of them, to be removed after KillPod, else
	// the exited ones that have a newer one.
	PruneInit []observed.Container

	// StartEphemeral, StartInit and StartRegular are the containers to start in
	// order, as indices into the lists of Pod.Spec.
	StartEphemeral, StartInit, StartRegular []int

	// UpdateMemory and UpdateCPU are the running containers to resize, memory
	// before CPU; in each those that shrink come first.
	UpdateMemory, UpdateCPU []Update
	// UpdatePodResources tells that a container is restarted to be resized: the
	// pod's own cgroup has to follow although no container is updated in place.
	UpdatePodResources bool
	// UpdatePodLevelResources tells that pod-level resources changed.
	UpdatePodLevelResources bool

	// Explanation says in one line why containers are not started that the pod
	// has, "" when all run or are started.
	Explanation string
}

// Starts tells whether any container is to be started.
func (a Actions) Starts() bool {
	return len(a.StartEphemeral)+len(a.StartInit)+len(a.StartRegular) > 0
}

// Resizes tells whether any resources change in place.
func (a Actions) Resizes() bool {
	return a.UpdatePodResources || a.UpdatePodLevelResources || len(a.UpdateMemory)+len(a.UpdateCPU) > 0
}

// Over tells that nothing of the pod is worth keeping and nothing to start:
// whatever its containers have come to, the pod has ended.
func (a Actions) Over() bool { return a.KillPod && !a.CreateSandbox }

// String describes the actions for a log: only what is to be done.
func (a Actions) String() string {
	var parts []string
	add := func(when bool, format string, args ...any) {
		if when {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(a.KillPod, "killPod")
	add(a.CreateSandbox, "createSandbox attempt=%d", a.Attempt)
	for _, k := range a.Kill {
		add(true, "kill=%s(%s)", k.Name, k.Message)
	}
	add(len(a.Reset) > 0, "reset=%v", names(a.Reset))
	add(len(a.Remove) > 0, "remove=%v", names(a.Remove))
	add(len(a.PruneInit) > 0, "pruneInit=%v", names(a.PruneInit))
	add(len(a.StartEphemeral) > 0, "startEphemeral=%v", a.StartEphemeral)
	add(len(a.StartInit) > 0, "startInit=%v", a.StartInit)
	add(len(a.StartRegular) > 0, "startRegular=%v", a.StartRegular)
	add(len(a.UpdateMemory) > 0, "updateMemory=%v", updateNames(a.UpdateMemory))
	add(len(a.UpdateCPU) > 0, "updateCPU=%v", updateNames(a.UpdateCPU))
	add(a.UpdatePodResources, "updatePodResources")
	add(a.UpdatePodLevelResources, "updatePodLevelResources")
	if len(parts) == 0 {
		parts = []string{"nothing"}
	}
	add(a.Explanation != "", "(%s)", a.Explanation)
	return strings.Join(parts, " ")
}

func names(list []observed.Container) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].Name
	}
	return out
}

func updateNames(list []Update) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].Name
	}
	return out
}
