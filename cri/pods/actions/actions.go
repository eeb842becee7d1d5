package actions

import (
	"fmt"
	"strings"

	"github.com/podwright/podwright/pleg/observed"
)

// KillReason is the reason a container is stopped. It selects a probe's grace period.
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
	// Reason is the failed probe, or "".
	Reason KillReason
	// Message is the text of the event.
	Message string
}

// Update is a change of a running container's resources in place (KEP-1287).
type Update struct {
	ID   observed.ContainerID
	Name string
	// Init selects Pod.Spec.InitContainers as the list that Index refers to, instead of
	// Pod.Spec.Containers.
	Init  bool
	Index int
	// Want has the amounts of the spec, Have the amounts last applied. A limit that was removed
	// from the spec is kept: it is equal in both.
	Want, Have Amounts
}

// Actions are the next steps of a pod. Without any step, all fields but SandboxID, Attempt and
// Explanation are zero.
//
// Carry them out in this order: KillPod, or else Kill and Reset; Remove and PruneInit;
// CreateSandbox; the updates; StartEphemeral; StartInit; StartRegular.
type Actions struct {
	// KillPod stops all containers and all sandboxes.
	KillPod bool
	// CreateSandbox creates a new sandbox, after KillPod. KillPod without CreateSandbox means
	// that the pod has ended.
	CreateSandbox bool
	// SandboxID is the current sandbox, or the sandbox to replace, or "".
	SandboxID string
	// Attempt is the attempt number of the new sandbox, or of the current one.
	Attempt uint32

	// Kill are the containers to stop. With KillPod, which stops all containers, Kill lists only
	// containers with their own reason.
	Kill []ContainerKill
	// Remove are containers that were created but never started, because an agent died in between
	// or the runtime refused. They are replaced.
	Remove []observed.Container
	// Reset are all instances of all containers, for a restart of all containers (KEP-5532). In
	// this order, stop each instance that has not exited, without a grace period, and remove it,
	// but keep its logs. End at the first error. The exit that triggered the restart comes last,
	// so that an unfinished reset is detected again. No other action accompanies Reset.
	Reset []observed.Container
	// PruneInit are instances of init containers that are no longer needed: with a new sandbox
	// all of them, to be removed after KillPod; otherwise the exited ones with a newer instance.
	PruneInit []observed.Container

	// StartEphemeral, StartInit and StartRegular are the containers to start in order, as indices
	// into the lists of Pod.Spec.
	StartEphemeral, StartInit, StartRegular []int

	// UpdateMemory and UpdateCPU are the running containers to resize, memory before CPU.
	// Decreases come first in each.
	UpdateMemory, UpdateCPU []Update
	// UpdateStopped are the containers whose resources changed and that do not run, such as
	// containers in back-off, or are restarted. They affect only the pod's cgroup.
	UpdateStopped []string
	// UpdatePodResources is true if the pod's cgroup must be resized even without an update in
	// place, because UpdateStopped has containers.
	UpdatePodResources bool
	// UpdatePodLevelResources is true if pod-level resources changed.
	UpdatePodLevelResources bool

	// Explanation is the reason, in one line, that containers of the pod are not started. It is
	// "" if all run or start.
	Explanation string
}

// Starts reports whether any container is to be started.
func (a Actions) Starts() bool {
	return len(a.StartEphemeral)+len(a.StartInit)+len(a.StartRegular) > 0
}

// Resizes reports whether any resources change in place.
func (a Actions) Resizes() bool {
	return a.UpdatePodResources || a.UpdatePodLevelResources || len(a.UpdateMemory)+len(a.UpdateCPU) > 0
}

// Over reports whether the pod has ended: no container is to be kept and none started.
func (a Actions) Over() bool { return a.KillPod && !a.CreateSandbox }

// String lists the actions for a log.
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
	add(len(a.UpdateStopped) > 0, "updateStopped=%v", a.UpdateStopped)
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
