package podworkerstest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/podworkers"
)

// The rules in this file compare the syncer's results with its effects, which the views show.

// finding is a violation of a rule.
type finding struct{ rule, what string }

func found(rule, format string, args ...any) []finding {
	return []finding{{rule, fmt.Sprintf(format, args...)}}
}

// history is the past of one pod, as the views have shown it.
type history struct {
	// pod is the newest version of an update.
	pod *v1.Pod
	// after has the running IDs at the end of the last call, nil before the first.
	after []string
	// stopped is the last terminating call, if it returned nil.
	stopped podworkers.Call
	// synced is the version of the last successful SyncPod. released is true after a successful
	// SyncTerminatedPod.
	synced   *v1.Pod
	released bool
	// followed is true until the first update after a restart of the agent.
	followed   bool
	containers map[string]*instance
	// older are the images of earlier versions by container.
	older map[string]map[string]bool
}

// instance is the newest instance of a container that a status has shown.
type instance struct {
	id       string
	restarts int32
	// code is the exit code, or nil before the end.
	code *int32
	// current is true after a successful SyncPod of the pod's newest version. Otherwise the instance
	// may be of an older one.
	current bool
}

// begin starts the next life of the UID.
func (h *history) begin() {
	if h.followed {
		h.followed = false
		return
	}
	*h = history{after: h.after, stopped: h.stopped, containers: map[string]*instance{}, older: map[string]map[string]bool{}}
}

// updated adds a version of the pod.
func (h *history) updated(pod *v1.Pod) {
	for c := range podfacts.Containers(pod) {
		if h.pod == nil {
			continue
		}
		before := podfacts.Container(h.pod, c.Name)
		if before == nil || before.Image == c.Image {
			continue
		}
		if h.older[c.Name] == nil {
			h.older[c.Name] = map[string]bool{}
		}
		h.older[c.Name][before.Image] = true
		delete(h.older[c.Name], c.Image)
		if i := h.containers[c.Name]; i != nil {
			i.current = false
		}
	}
	h.pod = pod
}

// endedCall is a call of the syncer that has returned.
type endedCall struct {
	kind podworkers.Call
	work podworkers.Work
	took time.Duration
	err  error
	// cancelled is the cause of the cancellation, or nil.
	cancelled error
	atCancel  look
	look      look
	// scripted is true if an Outcome replaced the call.
	scripted bool
}

// stopMargin is the time that a stop may take beyond its grace period, for the kill at its end.
const stopMargin = 5 * time.Second

// ended checks the effects of a call.
func (h *history) ended(c endedCall) (out []finding) {
	if c.look.running != nil {
		h.after = c.look.running
		if c.kind != podworkers.CallSyncTerminatedPod {
			h.stopped = podworkers.CallNone
		}
	}
	switch c.kind {
	case podworkers.CallSyncPod:
		if c.err == nil {
			h.synced = c.work.Pod
			for _, i := range h.containers {
				i.current = i.current || c.work.Pod == h.pod
			}
		}
		if started := added(c.look.running, c.atCancel.running); errors.Is(c.cancelled, podworkers.ErrTerminationRequested) && c.atCancel.running != nil && len(started) > 0 {
			return found("INV-5", "SyncPod started %s after termination was requested", list(started))
		}
	case podworkers.CallSyncTerminatingPod, podworkers.CallSyncTerminatingOrphan:
		return append(h.slow(c), h.stop(c)...)
	case podworkers.CallSyncTerminatedPod:
		if c.err == nil {
			h.released = true
			return h.kept(c.look, "after a successful SyncTerminatedPod")
		}
	}
	return nil
}

func (h *history) slow(c endedCall) []finding {
	grace := time.Duration(max(c.work.GracePeriodSeconds, 1)) * time.Second
	if c.scripted || c.took <= grace+stopMargin {
		return nil
	}
	return found("slow-stop", "%s took %v with a grace period of %v", c.kind, c.took.Round(time.Second), grace)
}

func (h *history) stop(c endedCall) []finding {
	if c.err != nil || c.look.running == nil {
		return nil
	}
	h.stopped = c.kind
	switch {
	case len(c.look.running) == 0:
		return nil
	case c.cancelled != nil:
		return found("INV-8", "%s was interrupted (%v) and returned nil while containers still run: %s; an interrupted stop must return an error", c.kind, c.cancelled, list(c.look.running))
	}
	return found("INV-8", "%s returned nil while containers still run: %s; it must wait for them to stop", c.kind, list(c.look.running))
}

func (h *history) kept(l look, when string) []finding {
	switch {
	case len(l.held) == 0:
		return nil
	case h.synced == nil:
		return found("resource-leaked", "%s %s, and no SyncPod has succeeded: a failed start must be released, too", held(l.held), when)
	}
	return found("resource-kept", "%s %s", held(l.held), when)
}

func held(names []string) string { return list(names) + " is held" }

// forgotten checks a pod without a worker.
func (h *history) forgotten(l look) []finding {
	if h.released {
		return nil // reported already
	}
	return h.kept(l, "although the workers have forgotten the pod")
}

// outside finds starts that happened while no call ran.
func (h *history) outside(l look, when string) []finding {
	if h.after == nil || l.running == nil {
		return nil
	}
	started := added(l.running, h.after)
	if len(started) == 0 {
		return nil
	}
	h.after = l.running
	if h.stopped != podworkers.CallNone {
		return found("INV-8", "%s was started after a successful %s (seen %s)", list(started), h.stopped, when)
	}
	return found("INV-1", "%s was started outside of all calls of the syncer (seen %s)", list(started), when)
}

// looked checks one look and adds it to the history.
func (h *history) looked(l look) (out []finding) {
	if h.pod != nil {
		if most := max(len(slices.Collect(podfacts.Containers(h.pod))), 1); len(l.running) > most {
			out = append(out, found("two-instances", "%d containers run (%s), but the pod has %d", len(l.running), list(l.running), most)...)
		}
	}
	if l.status == nil {
		return out
	}
	if phase := l.status.Phase; (phase == v1.PodSucceeded || phase == v1.PodFailed) && len(l.running) > 0 {
		out = append(out, found("early-phase", "the status has phase %s while %s runs", phase, list(l.running))...)
	}
	for _, s := range slices.Concat(l.status.InitContainerStatuses, l.status.ContainerStatuses) {
		out = append(out, h.container(s)...)
	}
	return out
}

// container checks the status of a container against the one before.
func (h *history) container(s v1.ContainerStatus) (out []finding) {
	id := s.ContainerID
	before := h.containers[s.Name]
	if before == nil {
		before = &instance{}
		h.containers[s.Name] = before
	}
	restarted := before.id != "" && id != "" && id != before.id
	if before.code != nil && (id == before.id || restarted && s.RestartCount == before.restarts+1) {
		switch code, ok := codeOf(s, before.id); {
		case !ok:
			out = found("exit-code", "container %s: the status has lost the exit code %d of %s", s.Name, *before.code, before.id)
		case code != *before.code:
			out = found("exit-code", "container %s: the exit code of %s was %d and is %d", s.Name, before.id, *before.code, code)
		}
	}
	if restarted && before.current {
		code := before.code
		if last, ok := codeOf(s, before.id); ok {
			code = &last
		}
		if why := h.mayNotRestart(s.Name, code); why != "" {
			out = append(out, found("restart-policy", "container %s: %s was restarted as %s, %s", s.Name, before.id, id, why)...)
		}
	}
	if id != "" && id != before.id {
		*before = instance{id: id}
	}
	before.restarts = s.RestartCount
	if code, ok := codeOf(s, before.id); ok && before.id != "" && before.code == nil {
		before.code = &code
	}
	return out
}

// codeOf returns the exit code of an instance.
func codeOf(s v1.ContainerStatus, id string) (int32, bool) {
	for _, t := range []*v1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
		if t != nil && (t.ContainerID == id || t.ContainerID == "" && s.ContainerID == id) {
			return t.ExitCode, true
		}
	}
	return 0, false
}

// mayNotRestart returns the reason against a restart after an exit code, or "". An unseen code (nil)
// permits a restart after a failure.
func (h *history) mayNotRestart(name string, code *int32) string {
	if h.pod == nil {
		return ""
	}
	policy := string(h.pod.Spec.RestartPolicy)
	if c := podfacts.Container(h.pod, name); c != nil && c.RestartPolicy != nil {
		if len(c.RestartPolicyRules) > 0 {
			return ""
		}
		policy = string(*c.RestartPolicy)
	}
	switch {
	case policy == string(v1.RestartPolicyNever):
		return "with restart policy Never"
	case policy == string(v1.RestartPolicyOnFailure) && code != nil && *code == 0:
		return "with restart policy OnFailure and exit code 0"
	}
	return ""
}

// settled checks a pod at rest, whose newest version is newest.
func (h *history) settled(l look, newest *v1.Pod) (out []finding) {
	if l.status == nil || newest == nil || h.synced != newest {
		return nil
	}
	if g := l.status.ObservedGeneration; g > 0 && g < newest.Generation {
		return found("stale-pod", "SyncPod succeeded with generation %d, but the status has generation %d", newest.Generation, g)
	}
	for _, s := range l.status.ContainerStatuses {
		c := podfacts.Container(newest, s.Name)
		if c != nil && s.State.Running != nil && s.Image != c.Image && h.older[s.Name][s.Image] {
			out = append(out, found("stale-pod", "SyncPod succeeded with image %s, but container %s runs image %s of an older version", c.Image, s.Name, s.Image)...)
		}
	}
	return out
}

func added(now, before []string) []string {
	return slices.DeleteFunc(slices.Clone(now), func(id string) bool { return slices.Contains(before, id) })
}

func list(ids []string) string { return strings.Join(ids, ", ") }
