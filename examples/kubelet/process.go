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

// process gives access to the system's settings of this process.
type process struct {
	scoreFile string
	// setOpenFiles sets the limit of open files. user is the effective user ID.
	setOpenFiles func(n uint64) error
	user         int
}

func thisProcess() process {
	return process{scoreFile: "/proc/self/oom_score_adj", setOpenFiles: setOpenFiles, user: os.Geteuid()}
}

func setOpenFiles(n uint64) error {
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n})
}

// prepare applies oomScoreAdj and maxOpenFiles. It only logs failures, because a kubelet works
// without them. It does nothing for the embedded runtime, whose containers would inherit the
// settings.
func (p process) prepare(cfg *config.Config, log *slog.Logger) {
	k := &cfg.Kubelet
	if k.ContainerRuntimeEndpoint == config.Embedded {
		return
	}
	if p.user != 0 {
		log.Warn("the kubelet does not run as root; mounts and folders of pods will fail", "user", p.user)
	}
	if err := p.setScore(cfg); err != nil {
		log.Warn("cannot set oomScoreAdj", "value", *k.OOMScoreAdj, "err", err)
	}
	if err := p.setOpenFiles(uint64(k.MaxOpenFiles)); err != nil {
		log.Warn("cannot set maxOpenFiles", "value", k.MaxOpenFiles, "err", fmt.Errorf("setrlimit: %w", err))
	}
}

func (p process) setScore(cfg *config.Config) error {
	return os.WriteFile(p.scoreFile, []byte(strconv.Itoa(int(*cfg.Kubelet.OOMScoreAdj))), 0)
}

// scorePeriod is the period of setting the score, because other programs may change it.
const scorePeriod = 5 * time.Minute

// keep sets the score periodically until ctx is done. It logs the first failure after a success;
// prepare has logged a failure at the start.
func (p process) keep(ctx context.Context, cfg *config.Config, log *slog.Logger) {
	if cfg.Kubelet.ContainerRuntimeEndpoint == config.Embedded {
		return
	}
	worked := p.setScore(cfg) == nil
	for run.Sleep(ctx, scorePeriod) {
		err := p.setScore(cfg)
		if err != nil && worked {
			log.Warn("cannot set oomScoreAdj again", "value", *cfg.Kubelet.OOMScoreAdj, "err", err)
		}
		worked = err == nil
	}
}
