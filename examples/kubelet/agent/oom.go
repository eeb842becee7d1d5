package agent

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/oom"
)

// watchMemory returns a watcher for processes that the kernel kills because the node is out of
// memory. It returns nil without a kernel log.
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

// killed records an event for a process that was killed because the node is out of memory. The
// runtime reports kills for the limit of a cgroup.
func (r recorder) killed(k oom.Kill) {
	if k.OfNode() {
		r.ofNode(v1.EventTypeWarning, "SystemOOM", fmt.Sprintf("System OOM encountered, victim process: %s, pid: %d", k.Process, k.PID))
	}
}
