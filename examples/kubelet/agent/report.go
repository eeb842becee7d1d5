package agent

import (
	"cmp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods"
	kubelet "github.com/podwright/podwright/examples/kubelet/node"
	"github.com/podwright/podwright/examples/kubelet/server"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/volume/manager"
)

var _ server.Source = (*Agent)(nil)

// Report returns the state of each pod with its reasons, for the status page.
func (a *Agent) Report() server.Report {
	in := a.inputs.Load()
	r := server.Report{Node: a.cfg.Flags.NodeName, Version: kubelet.Version, Time: time.Now(), Checks: a.Health(), Pods: []server.PodReport{}}
	if in != nil {
		// These are no checks of /healthz, because pods run without the API server.
		if in.cluster != nil {
			r.Checks = append(r.Checks, check("apiserver", in.cluster.health()), check("credential", in.cluster.credential()))
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
	r.Pods = append(r.Pods, n.waiting()...)
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
		r := server.PodReport{
			Namespace: pod.Namespace, Name: pod.Name, UID: string(uid), Manifest: n.in.sources.origin(uid), Phase: string(s.Phase), Worker: "none",
			Since: startOf(s), LastError: strings.Trim(s.Reason+": "+s.Message, ": "),
		}
		n.addStatus(&r, pod, s)
		if len(r.Containers) == 0 {
			r.LogDir = "" // the folder was not created
		}
		out = append(out, r)
	}
	return out
}

// waiting returns the pods that wait for their admission and have no status yet.
func (n *node) waiting() []server.PodReport {
	var out []server.PodReport
	for _, u := range n.syncer.Handler().Unadmitted() {
		if u.Rejected || n.syncer.Statuses().Get(u.Pod.UID) != nil {
			continue
		}
		out = append(out, server.PodReport{
			Namespace: u.Pod.Namespace, Name: u.Pod.Name, UID: string(u.Pod.UID), Manifest: n.in.sources.origin(u.Pod.UID),
			Phase: string(v1.PodPending), Worker: "none", Since: u.Since, LastError: u.Err.Error(),
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
	n.addStatus(&r, cmp.Or(s.Pod, n.lifecycle.desired.Get(s.UID)), n.syncer.Statuses().Get(s.UID))
	for _, w := range n.syncer.Probes().Workers(s.UID) {
		r.Probes = append(r.Probes, probeReport(w))
	}
	for _, v := range n.volumes.manager.Volumes(s.UID) {
		r.Volumes = append(r.Volumes, volumeReport(v))
	}
	if s.State == podworkers.StateSyncing {
		var lines []string
		for _, e := range n.syncer.Explain(s.UID) {
			if e.Why != "" { // LastError has e.Err
				lines = append(lines, e.Why)
			}
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

// addStatus adds the pod's status, its log folder and its recent events. The pod is nil if only the
// runtime lists it. The status is nil before the first one.
func (n *node) addStatus(r *server.PodReport, pod *v1.Pod, status *v1.PodStatus) {
	uid := types.UID(r.UID)
	r.LogDir = pods.LogDir(n.in.cfg.Kubelet.PodLogsDir, r.Namespace, r.Name, uid)
	events, kills := n.in.recorder.recent.of(uid)
	r.Events = events
	if status == nil {
		return
	}
	r.Phase, r.NotReady, r.HostIP = string(status.Phase), notReady(status), status.HostIP
	r.Reason = strings.Trim(status.Reason+": "+status.Message, ": ")
	for _, ip := range status.PodIPs {
		r.PodIPs = append(r.PodIPs, ip.IP)
	}
	add := func(kind string, c v1.ContainerStatus) {
		r.Containers = append(r.Containers, containerReport(kind, pod, c, kills[c.Name]))
	}
	for _, c := range status.InitContainerStatuses {
		add(initKind(pod, c.Name), c)
	}
	for _, c := range status.ContainerStatuses {
		add("", c)
	}
	for _, c := range status.EphemeralContainerStatuses {
		add("ephemeral", c)
	}
}

// leftovers returns the pods that have volumes but no worker and no status. Their volumes come from
// an earlier agent, or are about to be unmounted.
func (n *node) leftovers() (out []server.PodReport) {
	for _, uid := range n.volumes.manager.Pods() {
		if n.syncer.Workers().State(uid).State != podworkers.StateUnknown || n.syncer.Statuses().Get(uid) != nil {
			continue
		}
		r := server.PodReport{UID: string(uid), Worker: "none", WaitsFor: "unmounting its volumes"}
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
