package agent

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/oom"
)

// watchMemory watches for processes that are killed since the node has no memory left; nil if
// nobody is to.
func watchMemory(cfg *Config, recorder recorder) (*oom.Watcher, error) {
	if cfg.KernelLog == nil {
		return nil, nil
	}
	log, err := cfg.KernelLog()
	if log == nil || err != nil {
		return nil, err
	}
	return oom.New(oom.Config{Log: log, OnKill: recorder.killed, Logger: cfg.Logger})
}

// killed tells of a process that was killed since the node has no memory left. Those that are over
// the limit of their cgroup are told of by the runtime.
func (r recorder) killed(k oom.Kill) {
	if k.OfNode() {
		r.ofNode(v1.EventTypeWarning, "SystemOOM", fmt.Sprintf("System OOM encountered, victim process: %s, pid: %d", k.Process, k.PID))
	}
}
