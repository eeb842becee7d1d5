package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/userns"

	"github.com/podwright/podwright/cri/cgroups"
	kernel "github.com/podwright/podwright/examples/kubelet/cgroups"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/examples/kubelet/tuning"
)

// machine contains the properties of the host that a kubelet depends on.
type machine struct {
	cgroups cgroups.Version
	proc    string
	user    int
	// userNamespace is true if the process runs in a user namespace.
	userNamespace bool
}

func thisMachine() machine {
	return machine{cgroups: kernel.HostVersion(), proc: "/proc", user: os.Geteuid(), userNamespace: userns.RunningInUserNS()}
}

// check returns an error for a host that contradicts the configuration, and sets defaults that
// depend on the host. It ignores the embedded runtime, whose containers have no cgroups and no
// memory limits.
func (m machine) check(cfg *config.Config) error {
	k := &cfg.Kubelet
	if k.ContainerRuntimeEndpoint == config.Embedded {
		return nil
	}
	var errs []error
	if m.cgroups == cgroups.V1 {
		if *k.FailCgroupV1 {
			errs = append(errs, errors.New("failCgroupV1: this host has cgroup v1; boot it with v2, or set failCgroupV1: false (--fail-cgroupv1=false)"))
		}
		if k.SingleProcessOOMKill != nil && !*k.SingleProcessOOMKill {
			errs = append(errs, errors.New("singleProcessOOMKill: false needs cgroup v2"))
		}
		if k.MemorySwap.SwapBehavior == config.LimitedSwap {
			errs = append(errs, errors.New("memorySwap.swapBehavior: LimitedSwap needs cgroup v2"))
		}
	}
	if *k.FailSwapOn {
		errs = append(errs, m.checkSwap())
	}
	if k.SingleProcessOOMKill == nil {
		k.SingleProcessOOMKill = new(m.cgroups == cgroups.V1)
	}
	return errors.Join(errs...)
}

// checkSwap returns an error if the host swaps. A kernel without swap has no list of swap areas.
func (m machine) checkSwap() error {
	data, err := os.ReadFile(filepath.Join(m.proc, "swaps"))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("failSwapOn: %w", err)
	}
	var on []string
	for i, line := range strings.Split(string(data), "\n") {
		if fields := strings.Fields(line); i > 0 && len(fields) > 0 { // the first line contains the columns' names
			on = append(on, fields[0])
		}
	}
	if len(on) == 0 {
		return nil
	}
	return fmt.Errorf("failSwapOn: this host swaps to %s; turn that off, or set failSwapOn: false (--fail-swap-on=false)", strings.Join(on, ", "))
}

// tune returns agent.Config.Tune. It returns nil for the embedded runtime, and for users without
// the right to change kernel parameters.
func (m machine) tune(cfg *config.Config, log *slog.Logger) func() error {
	protect := cfg.Kubelet.ProtectKernelDefaults
	switch {
	case cfg.Kubelet.ContainerRuntimeEndpoint == config.Embedded:
		return nil
	case m.user != 0 && !protect:
		log.Warn("kernel parameters not changed: the kubelet does not run as root", "user", m.user)
		return nil
	}
	dir := filepath.Join(m.proc, "sys")
	c := tuning.Config{
		Root: os.DirFS(dir),
		OnChange: func(s tuning.Setting, from string) {
			log.Info("kernel parameter changed", "name", s.Name, "from", from, "to", s.Value)
		},
	}
	if !protect {
		c.Write = func(name, value string) error { return os.WriteFile(filepath.Join(dir, name), []byte(value), 0) }
	}
	return func() error {
		err := tuning.Apply(c)
		if err != nil && !protect && m.userNamespace && cfg.Enabled(config.InUserNamespace) {
			log.Warn("kernel parameters not changed: the kubelet runs in a user namespace", "err", err)
			return nil
		}
		return err
	}
}
