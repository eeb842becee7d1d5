package main

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/moby/sys/userns"

	"github.com/podwright/podwright/examples/kubelet/apparmor"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/examples/kubelet/iptables"
	"github.com/podwright/podwright/examples/kubelet/oom"
	"github.com/podwright/podwright/examples/kubelet/tracing"
)

// host is the kubelet's access to the machine besides the runtime. The embedded runtime does not
// use it.
type host struct {
	sys     fs.FS // /sys
	openLog func() (io.ReadCloser, error)
	// privileged is true if the process has the rights of the machine's root.
	privileged bool
}

func thisHost() host {
	return host{sys: os.DirFS("/sys"), openLog: oom.Open, privileged: os.Geteuid() == 0 && !userns.RunningInUserNS()}
}

// kernelLog returns a function that opens the kernel's log, or nil for the embedded runtime. An
// unprivileged kubelet only logs that it cannot open the log.
func (h host) kernelLog(cfg *config.Config, log *slog.Logger) func() (io.ReadCloser, error) {
	if cfg.Kubelet.ContainerRuntimeEndpoint == config.Embedded {
		return nil
	}
	return func() (io.ReadCloser, error) {
		file, err := h.openLog()
		if err != nil && !h.privileged {
			log.Warn("cannot open the kernel log; out-of-memory kills are not reported", "err", err)
			return nil, nil
		}
		return file, err
	}
}

// appArmor reports whether AppArmor confines containers. It does not confine containers of the
// embedded runtime, which are processes of the host.
func (h host) appArmor(cfg *config.Config) bool {
	return cfg.Kubelet.ContainerRuntimeEndpoint != config.Embedded && apparmor.Enabled(h.sys)
}

func keepChains(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	if cfg.Kubelet.ContainerRuntimeEndpoint == config.Embedded || !*cfg.Kubelet.MakeIPTablesUtilChains {
		return nil
	}
	keeper, err := iptables.New(iptables.Config{Logger: log})
	if err != nil {
		return err
	}
	return keeper.Run(ctx)
}

// lastSpans bounds the wait for a collector at the kubelet's end.
const lastSpans = 2 * time.Second

// newTracer returns nil without a tracing configuration.
func newTracer(cfg *config.Config, log *slog.Logger) (*tracing.Tracer, error) {
	wanted := cfg.Kubelet.Tracing
	if wanted == nil {
		return nil, nil
	}
	to := tracing.Config{Service: "kubelet", Host: cfg.Flags.NodeName, ShutdownTimeout: lastSpans, Logger: log}
	if wanted.Endpoint != nil {
		to.Endpoint = *wanted.Endpoint
	}
	if wanted.SamplingRatePerMillion != nil {
		to.SamplingRatePerMillion = *wanted.SamplingRatePerMillion
	}
	return tracing.New(to)
}

// startTracing sends spans until end is called, and then the last ones. Call end after all parts
// with spans have ended.
func startTracing(ctx context.Context, tracer *tracing.Tracer) (ended <-chan error, end func()) {
	ctx, end = context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- tracer.Run(ctx) }()
	return done, end
}
