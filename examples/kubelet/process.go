package main

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/examples/kubelet/config"
)

// process is this process as the system sees it.
type process struct {
	// scoreFile has how gladly the kernel ends it when memory is short.
	scoreFile string
	// setOpenFiles sets how many files it may have open, user who it runs as.
	setOpenFiles func(n uint64) error
	user         int
}

func thisProcess() process {
	return process{scoreFile: "/proc/self/oom_score_adj", setOpenFiles: setOpenFiles, user: os.Geteuid()}
}

func setOpenFiles(n uint64) error {
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n})
}

// prepare makes the process one on which a node depends (oomScoreAdj, maxOpenFiles). What is
// not permitted is logged: a kubelet works without. The embedded runtime's containers would
// inherit all of it, and need none.
func (p process) prepare(cfg *config.Config, log *slog.Logger) {
	k := &cfg.Kubelet
	if k.ContainerRuntimeEndpoint == config.Embedded {
		return
	}
	if p.user != 0 {
		log.Warn("the kubelet does not run as root: mounts and folders of pods will fail", "user", p.user)
	}
	if err := os.WriteFile(p.scoreFile, []byte(strconv.Itoa(int(*k.OOMScoreAdj))), 0); err != nil {
		log.Warn("oomScoreAdj is not set", "value", *k.OOMScoreAdj, "err", err)
	}
	if err := p.setOpenFiles(uint64(k.MaxOpenFiles)); err != nil {
		log.Warn("maxOpenFiles is not set", "value", k.MaxOpenFiles, "err", fmt.Errorf("setrlimit: %w", err))
	}
}
