package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/internal/run"
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
	if err := p.setScore(cfg); err != nil {
		log.Warn("oomScoreAdj is not set", "value", *k.OOMScoreAdj, "err", err)
	}
	if err := p.setOpenFiles(uint64(k.MaxOpenFiles)); err != nil {
		log.Warn("maxOpenFiles is not set", "value", k.MaxOpenFiles, "err", fmt.Errorf("setrlimit: %w", err))
	}
}

func (p process) setScore(cfg *config.Config) error {
	return os.WriteFile(p.scoreFile, []byte(strconv.Itoa(int(*cfg.Kubelet.OOMScoreAdj))), 0)
}

// scorePeriod is how often the score is set again: others set those of processes, too.
const scorePeriod = 5 * time.Minute

// keep sets the score again and again until ctx ends. What fails was told at the start, or
// is told when it begins to fail.
func (p process) keep(ctx context.Context, cfg *config.Config, log *slog.Logger) {
	if cfg.Kubelet.ContainerRuntimeEndpoint == config.Embedded {
		return
	}
	worked := p.setScore(cfg) == nil
	for run.Sleep(ctx, scorePeriod) {
		err := p.setScore(cfg)
		if err != nil && worked {
			log.Warn("oomScoreAdj is not set any more", "value", *cfg.Kubelet.OOMScoreAdj, "err", err)
		}
		worked = err == nil
	}
}
