package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/server"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/volume/manager"
)

var _ server.Source = (*Agent)(nil)

// Report returns the state of each pod with its reasons, for the status page.
func (a *Agent) Report() server.Report {
	in := a.inputs.Load()
	r := server.Report{Node: a.cfg.Flags.NodeName, Time: time.Now(), Checks: a.Health(), Pods: []server.PodReport{}}
	if in != nil {
		// This is no check of /healthz, because pods run without the API server.
		if in.cluster != nil {
			r.Checks = append(r.Checks, check("apiserver", in.cluster.health()))
		}
		for _, p := range in.sources.manifestProblems() {
			r.Manifests = append(r.Manifests, server.ManifestProblem{Path: p.Path, Message: p.Message, Since: p.Since, KeptPrevious: p.KeptLastGood})
		}
		for _, p := range in.references.problems() {
			r.Objects = append(r.Objects, server.ObjectProblem{Path: p.Path, Message: p.Message, KeptPrevious: p.KeptLastGood})
		}
	}
	n, _ := a.connected.get()
	if n == nil {
		return r
	}
	for _, s := range n.syncer.Workers().Pods() {
		r.Pods = append(r.Pods, n.podReport(s))
	}
	r.Pods = append(r.Pods, n.rejected()...)
	r.Pods = append(r.Pods, n.leftovers()...)
	slices.SortFunc(r.Pods, func(a, b server.PodReport) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	for _, p := range n.syncer.Probes().Pools() {
		r.Probers = append(r.Probers, proberReport(p))
	}
	return r
}

func (n *node) rejected() []server.PodReport {
	var out []server.PodReport
	for uid, pod := range n.lifecycle.current() {
		s := n.syncer.Statuses().Get(uid)
		if s == nil || n.syncer.Workers().State(uid).State != podworkers.StateUnknown {
			continue
		}
		out = append(out, server.PodReport{
			Namespace: pod.Namespace, Name: pod.Name, UID: string(uid), Manifest: n.in.sources.origin(uid), Phase: string(s.Phase), Worker: "none",
			Since: startOf(s), LastError: s.Reason + ": " + s.Message,
		})
	}
	return out
}

func startOf(s *v1.PodStatus) time.Time {
	if s.StartTime == nil {
		return time.Time{}
	}
	return s.StartTime.Time
}

func (n *node) podReport(s podworkers.PodState) server.PodReport {
	r := server.PodReport{
		Namespace: s.Namespace, Name: s.Name, UID: string(s.UID), Manifest: n.in.sources.origin(s.UID),
		Worker: s.State.String(), Step: step(s), Since: s.Since, WaitsFor: s.WaitsFor,
	}
	if s.Call != podworkers.CallNone {
		r.Since = s.CallSince
	}
	if s.LastError != nil {
		r.LastError = s.LastError.Error()
	}
	if !s.NextRetry.IsZero() {
		r.NextRetry = &s.NextRetry
	}
	if status := n.syncer.Statuses().Get(s.UID); status != nil {
		r.Phase, r.NotReady = string(status.Phase), notReady(status)
		for _, c := range status.InitContainerStatuses {
			r.Containers = append(r.Containers, containerReport(initKind(s.Pod, c.Name), c))
		}
		for _, c := range status.ContainerStatuses {
			r.Containers = append(r.Containers, containerReport("", c))
		}
		for _, c := range status.EphemeralContainerStatuses {
			r.Containers = append(r.Containers, containerReport("ephemeral", c))
		}
	}
	for _, w := range n.syncer.Probes().Workers(s.UID) {
		r.Probes = append(r.Probes, probeReport(w))
	}
	for _, v := range n.volumes.manager.Volumes(s.UID) {
		r.Volumes = append(r.Volumes, volumeReport(v))
	}
	if s.State == podworkers.StateSyncing {
		var lines []string
		for _, e := range n.syncer.Explain(s.UID) {
			lines = append(lines, e.Why)
		}
		for _, e := range n.images.Explain(s.UID) {
			lines = append(lines, e.At(time.Now()))
		}
		r.Why = strings.Join(lines, "\n")
	}
	for _, e := range slices.Concat(n.stages.Explain(s.UID), n.syncer.Statuses().Explain(s.UID)) {
		if e.Step != "" || e.Why != "" || e.Err != nil {
			r.Parts = append(r.Parts, e.At(time.Now()))
		}
	}
	return r
}

// leftovers returns the pods that have volumes but no worker and no status. Their volumes come from
// an earlier agent, or are about to be unmounted.
func (n *node) leftovers() (out []server.PodReport) {
	for _, uid := range n.volumes.manager.Pods() {
		if n.syncer.Workers().State(uid).State != podworkers.StateUnknown || n.syncer.Statuses().Get(uid) != nil {
			continue
		}
		r := server.PodReport{UID: string(uid), Worker: "none", WaitsFor: "its volumes to be unmounted"}
		for _, v := range n.volumes.manager.Volumes(uid) {
			r.Volumes = append(r.Volumes, volumeReport(v))
		}
		if len(r.Volumes) > 0 {
			out = append(out, r)
		}
	}
	return out
}

func volumeReport(v manager.VolumeState) server.VolumeReport {
	r := server.VolumeReport{Name: v.Name, Plugin: v.Plugin, State: v.State.String(), Ready: v.Ready, WaitsFor: v.WaitsFor, Stuck: v.Stuck}
	if !v.RunningSince.IsZero() {
		r.Operation, r.RunningSince = v.Operation, &v.RunningSince
	}
	if v.LastError != nil {
		r.LastError = v.LastError.Error()
	}
	if !v.NextTry.IsZero() {
		r.NextTry = &v.NextTry
	}
	return r
}

// initKind distinguishes sidecars from other init containers. The pod is nil if only the runtime
// lists it.
func initKind(pod *v1.Pod, name string) string {
	if c := podfacts.Container(pod, name); c != nil && podfacts.IsSidecar(c) {
		return "sidecar"
	}
	return "init"
}

func step(s podworkers.PodState) string {
	switch {
	case s.Call == podworkers.CallNone:
		return ""
	case s.Step == "":
		return s.Call.String()
	default:
		return s.Call.String() + ": " + s.Step
	}
}

func containerReport(kind string, c v1.ContainerStatus) server.ContainerReport {
	r := server.ContainerReport{Name: c.Name, Kind: kind, Restarts: c.RestartCount}
	switch {
	case c.State.Running != nil:
		r.State = "running"
	case c.State.Terminated != nil:
		r.State, r.Reason, r.Message = "terminated", c.State.Terminated.Reason, ended(c.State.Terminated)
	case c.State.Waiting != nil:
		r.State, r.Reason, r.Message = "waiting", c.State.Waiting.Reason, c.State.Waiting.Message
	default:
		r.State = "waiting"
	}
	if t := c.LastTerminationState.Terminated; t != nil {
		r.LastEnd = ended(t)
	}
	return r
}

// ended returns the exit code of a container, with the runtime's reason and message.
func ended(t *v1.ContainerStateTerminated) string {
	text := fmt.Sprintf("exit code %d", t.ExitCode)
	if t.Reason != "" {
		text += " (" + t.Reason + ")"
	}
	if message := strings.TrimSpace(t.Message); message != "" {
		text += ": " + message
	}
	return text
}

// Health returns the agent's health checks, one per part.
func (a *Agent) Health() []server.Check {
	in := a.inputs.Load()
	n, err := a.connected.get()
	switch {
	case in == nil:
		return []server.Check{check("runtime", err)}
	case n == nil:
		return []server.Check{check("runtime", err), check("manifests", in.sources.health()), check("objects", in.references.health()), check("root", a.rootHealth())}
	}
	return []server.Check{
		check("ping", nil),
		check("log", nil), // always passes: the caller writes the log
		check("runtime", n.runtimeCheck()),
		check("pleg", n.syncer.Healthy()),
		check("syncloop", n.syncer.Loop().CheckHealth()),
		check("manifests", in.sources.health()),
		check("objects", in.references.health()),
		check("root", a.rootHealth()),
	}
}

// runtimeCheck is stricter than the loop's health check: it fails if the newest poll failed.
func (n *node) runtimeCheck() error {
	h := n.health.Health()
	if h.Err != nil {
		return h.Err
	}
	return cmp.Or(n.health.runtimeHealth(), n.syncer.Healthy())
}

func check(name string, err error) server.Check {
	if err != nil {
		return server.Check{Name: name, Message: err.Error()}
	}
	return server.Check{Name: name, OK: true}
}
