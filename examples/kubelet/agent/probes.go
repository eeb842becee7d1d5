package agent

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/examples/kubelet/server"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/exec"
	"github.com/podwright/podwright/probe/grpc"
	"github.com/podwright/podwright/probe/httpget"
	"github.com/podwright/podwright/probe/tcpsocket"
)

// probers returns the four kinds of probers. After a timeout of an exec probe, Alive distinguishes
// a hanging command from a hanging runtime: if the runtime still responds to Status, the command
// hangs.
func probers(runtime cri.RuntimeService) (map[probe.Handler]probe.Prober, error) {
	command, err := exec.New(exec.Config{Runtime: runtime, Alive: func(ctx context.Context) error {
		_, err := runtime.Status(ctx, false)
		return err
	}})
	if err != nil {
		return nil, err
	}
	web, err := httpget.New(httpget.Config{})
	if err != nil {
		return nil, err
	}
	rpc, err := grpc.New(grpc.Config{})
	if err != nil {
		return nil, err
	}
	return map[probe.Handler]probe.Prober{
		probe.Exec: command, probe.HTTPGet: web, probe.TCPSocket: tcpsocket.New(tcpsocket.Config{}), probe.GRPC: rpc,
	}, nil
}

// notReady returns the reason why a pod that has not ended is not ready, or "".
func notReady(s *v1.PodStatus) string {
	if podfacts.IsTerminalPhase(s.Phase) {
		return ""
	}
	for _, c := range s.Conditions {
		if c.Type == v1.PodReady && c.Status != v1.ConditionTrue {
			return strings.Trim(c.Reason+": "+c.Message, ": ")
		}
	}
	return ""
}

func probeReport(w probe.Worker) server.ProbeReport {
	r := server.ProbeReport{
		Container: w.Container, Type: w.Type.String(), Handler: string(w.Handler), State: string(w.State), Why: w.Why,
		Period: w.Period.Seconds(), Timeout: w.Timeout.Seconds(),
		Result: w.Result.String(), Consecutive: w.Consecutive, Threshold: w.Threshold,
	}
	if !w.Next.IsZero() {
		r.Next = &w.Next
	}
	if !w.LastAt.IsZero() {
		r.Last, r.LastAt, r.LastTook, r.Output = w.Last.String(), &w.LastAt, w.LastTook.Seconds(), w.Output
	}
	return r
}

func proberReport(p probe.Pool) server.ProberReport {
	return server.ProberReport{
		Handler: string(p.Handler), Budget: p.Budget, Running: p.Running, Slow: p.Slow, Stuck: p.Stuck,
		Queued: p.Queued, Late: p.Late.Seconds(),
	}
}
