package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHeadline(t *testing.T) {
	times := func(n int, change func(*PodReport)) (pods []PodReport) {
		for range n {
			pods = append(pods, running1(change))
		}
		return pods
	}
	failing := func(p *PodReport) { p.Phase = "Failed" }
	unready := func(p *PodReport) { p.NotReady = "ContainersNotReady" }
	loop := func(p *PodReport) { p.Containers[0].Reason, p.Containers[0].State = "CrashLoopBackOff", "waiting" }
	now := time.Unix(10_000, 0)
	again := func(p *PodReport) {
		p.Containers[0].Restarts, p.Containers[0].LastExit = 1, &ExitReport{Code: 1, At: &now}
	}
	for _, c := range []struct {
		want   string
		fine   bool
		report Report
	}{
		{"20 pods failed, 4 manifests rejected, 1 not ready", false, Report{Pods: append(times(20, failing), times(1, unready)...), Manifests: make([]ManifestProblem, 4)}},
		{"1 pod failed, 1 manifest rejected, 2 object files rejected", false, Report{Pods: times(1, failing), Manifests: make([]ManifestProblem, 1), Objects: make([]ObjectProblem, 2)}},
		{"1 pod restarted in the last 10 minutes", false, Report{Time: now, Pods: times(1, again)}},
		{"1 pod keeps crashing", false, Report{Pods: times(1, loop)}},
		{"3 pods keep crashing, 1 starting", false, Report{Pods: append(times(3, loop), times(1, func(p *PodReport) { p.Phase = "Pending" })...)}},
		{"container runtime and container states not ok", false, Report{Checks: []Check{{Name: "runtime"}, {Name: "ping", OK: true}, {Name: "pleg"}}}},
		{"1 probe hangs, 5 probes are late", false, Report{Pods: times(1, nil), Probers: []ProberReport{{Stuck: 1, Queued: 2}, {Queued: 3}}}},
		{"All fine, no pods", true, Report{}},
		{"All fine, 1 pod", true, Report{Pods: times(1, nil), Checks: []Check{{Name: "runtime", OK: true}}}},
		{"All fine, 60 pods", true, Report{Pods: times(60, nil)}},
	} {
		text, fine := headline(c.report)
		require.Equal(t, c.want, text)
		require.Equal(t, c.fine, fine, text)
	}
}

func TestPodHeadline(t *testing.T) {
	now := time.Unix(10_000, 0)
	for want, change := range map[string]func(*PodReport){
		"running": nil,
		"rejected: OutOfcpu: Node didn't have enough resource: cpu": func(p *PodReport) {
			p.Phase, p.Worker, p.Reason = "Failed", "none", "OutOfcpu: Node didn't have enough resource: cpu"
		},
		"failed: container c: exit code 3": func(p *PodReport) {
			p.Phase, p.Containers = "Failed", []ContainerReport{{Name: "c", State: "terminated", Reason: "Error", LastExit: &ExitReport{Code: 3}}}
		},
		"keeps crashing: container c restarted 3 times, last exit: exit code 137 (Error), killed: liveness probe failed": func(p *PodReport) {
			p.Containers = []ContainerReport{{Name: "c", State: "waiting", Reason: "CrashLoopBackOff", Restarts: 3, LastExit: &ExitReport{Code: 137, Reason: "Error", Cause: "killed: liveness probe failed"}}}
		},
		"not ready: readiness probe of container c fails": func(p *PodReport) {
			p.NotReady, p.Probes = "ContainersNotReady", []ProbeReport{{Container: "c", Type: "Readiness", Result: "Failure"}}
		},
		"cannot start: first": func(p *PodReport) { p.Phase, p.LastError = "Pending", "first\nsecond" },
		"cannot start: volume v: not found": func(p *PodReport) {
			p.Phase, p.Volumes = "Pending", []VolumeReport{{Name: "v", LastError: "not found"}}
		},
		"starting: init container i is running": func(p *PodReport) { p.Phase, p.Why = "Pending", "init container i is running" },
		"restarted: container c restarted twice, last exit: exit code 2, killed: startup probe failed": func(p *PodReport) {
			p.Containers[0].Restarts, p.Containers[0].LastExit = 2, &ExitReport{Code: 2, At: &now, Cause: "killed: startup probe failed"}
		},
		"stopping": func(p *PodReport) { p.Worker = "Terminating" },
	} {
		p := running1(change)
		require.Equal(t, want, podHeadline(&p, now))
	}
}
