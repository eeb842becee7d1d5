package agent

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/oom"
)

// watchMemory watches for processes that are killed since the node has no memory left; nil if
// nobody is to.
func (g *ground) watchMemory() (*oom.Watcher, error) {
	if g.cfg.KernelLog == nil {
		return nil, nil
	}
	log, err := g.cfg.KernelLog()
	if log == nil || err != nil {
		return nil, err
	}
	return oom.New(oom.Config{Log: log, OnKill: g.killed, Logger: g.cfg.Logger})
}

// killed tells of a process that was killed since the node has no memory left. Those that are over
// the limit of their cgroup are told of by the runtime.
func (g *ground) killed(k oom.Kill) {
	if k.OfNode() {
		g.event(nodeReference(g.cfg.Flags.NodeName), v1.EventTypeWarning, "SystemOOM", fmt.Sprintf("System OOM encountered, victim process: %s, pid: %d", k.Process, k.PID))
	}
}
