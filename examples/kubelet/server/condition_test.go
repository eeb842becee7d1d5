package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func running1(change func(*PodReport)) PodReport {
	p := PodReport{Namespace: "default", Name: "a", UID: "u", Phase: "Running", Worker: "Syncing", Containers: []ContainerReport{{Name: "c", State: "running"}}}
	if change != nil {
		change(&p)
	}
	return p
}

func TestConditionOfAPod(t *testing.T) {
	now := time.Unix(10_000, 0)
	exit := func(code int32, cause string, ago time.Duration) func(*PodReport) {
		at := now.Add(-ago)
		return func(p *PodReport) {
			p.Containers[0].Restarts, p.Containers[0].LastExit = 1, &ExitReport{Code: code, Cause: cause, At: &at}
		}
	}
	waiting := func(reason string) []ContainerReport {
		return []ContainerReport{{Name: "c", State: "waiting", Reason: reason}}
	}
	for _, c := range []struct {
		want   condition
		change func(*PodReport)
	}{
		{running, nil},
		{completed, func(p *PodReport) { p.Phase, p.Worker = "Succeeded", "Finished" }},
		{failed, func(p *PodReport) { p.Phase, p.Worker = "Failed", "Finished" }},
		{rejected, func(p *PodReport) { p.Phase, p.Worker = "Failed", "none" }},
		{leftover, func(p *PodReport) { p.Phase, p.Worker = "", "none" }},
		{stopping, func(p *PodReport) { p.Worker = "Terminating" }},
		{stopping, func(p *PodReport) { p.Worker, p.Phase = "TerminationRequested", "" }},
		{crashing, func(p *PodReport) { p.Containers = waiting("CrashLoopBackOff") }},
		{crashing, func(p *PodReport) { p.Phase, p.Containers = "Pending", waiting("CrashLoopBackOff") }},
		{cannotStart, func(p *PodReport) { p.Phase, p.Containers = "Pending", waiting("ErrImagePull") }},
		{cannotStart, func(p *PodReport) { p.Phase, p.LastError = "Pending", "no sandbox" }},
		{cannotStart, func(p *PodReport) { p.Phase, p.Volumes = "Pending", []VolumeReport{{LastError: "no"}} }},
		{starting, func(p *PodReport) { p.Phase, p.Containers = "Pending", waiting("ContainerCreating") }},
		{starting, func(p *PodReport) { p.Phase, p.Worker = "", "Waiting" }},
		{restarted, exit(1, "", 9*time.Minute)},
		{restarted, exit(137, "killed: liveness probe failed", time.Second)},
		{running, exit(1, "", 10*time.Minute)},
		{running, exit(0, "ended by itself", time.Second)},
		{running, exit(143, "stopped: its definition changed", time.Second)},
		{notReady, func(p *PodReport) { p.NotReady = "ContainersNotReady" }},
		{notReady, func(p *PodReport) { p.LastError = "the last sync failed" }},
	} {
		p := running1(c.change)
		require.Equal(t, c.want.String(), conditionOf(&p, now).String(), "%+v", p)
	}
}

// The page lists failed pods first, and sorts pods of one condition by namespace and name.
func TestWorstFirst(t *testing.T) {
	named := func(name, phase string) PodReport {
		return running1(func(p *PodReport) { p.Name, p.Phase = name, phase })
	}
	pods := []PodReport{named("a", "Running"), named("b", "Pending"), named("c", "Succeeded"), named("z", "Failed"), named("d", "Failed")}
	var order string
	for _, p := range worstFirst(pods, time.Now()) {
		order += p.Name
	}
	require.Equal(t, "dzbac", order)
	require.Equal(t, "a", pods[0].Name, "the order of the report is unchanged")
}
