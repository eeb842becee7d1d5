package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/podwright/podwright/cri"
	podcgroups "github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/cri/embedded"
	"github.com/podwright/podwright/examples/kubelet/agent"
	"github.com/podwright/podwright/examples/kubelet/cgroups"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/examples/kubelet/metrics"
	"github.com/podwright/podwright/examples/kubelet/node"
	"github.com/podwright/podwright/examples/kubelet/server"
	"github.com/podwright/podwright/examples/kubelet/shutdown"
	"github.com/podwright/podwright/examples/kubelet/systemd"
	"github.com/podwright/podwright/examples/kubelet/tracing"
)

// runNode runs the agent and its servers until ctx is done or one of them fails.
func runNode(ctx context.Context, cfg *config.Config, log *slog.Logger, setVerbosity func(int)) (err error) {
	announce(cfg, log)
	machine := thisMachine()
	if err := machine.check(cfg); err != nil {
		return err
	}
	process := thisProcess()
	process.prepare(cfg, log)
	if cfg.Kubelet.EnableContentionProfiling {
		runtime.SetBlockProfileRate(1)
	}
	l, err := listenAll(ctx, cfg)
	if err != nil {
		return err
	}
	defer l.close()
	if l.readOnly != nil {
		log.Info("Serving the status page", "url", statusPage(l.readOnly.Addr()))
	}
	tracer, err := newTracer(cfg, log)
	if err != nil {
		return err
	}
	counted, err := agent.NewMetrics(cfg)
	if err != nil {
		return err
	}
	parts := agent.Config{
		Config: *cfg, Connect: connector(cfg, counted.Runtime, tracer, log), Metrics: counted, Cgroups: hostCgroups(cfg),
		ShareRoot: func(ctx context.Context) error { return machine.shareRoot(ctx, cfg, log) }, Tune: machine.tune(cfg, log), KernelLog: thisHost().kernelLog(cfg, log),
		Login: shutdown.Logind{}, AppArmor: thisHost().appArmor(cfg),
		API: l.api, SetVerbosity: setVerbosity, Logger: log,
	}
	if tracer != nil {
		parts.Span = tracer.Span
	}
	a, err := agent.New(parts)
	if err != nil {
		return err
	}
	manager, err := systemd.New(systemd.Config{Check: func() error { return stuck(a.Health()) }, Logger: log})
	if err != nil {
		return err
	}
	if tracer != nil {
		traced, end := startTracing(ctx, tracer)
		defer func() {
			end()
			err = errors.Join(err, <-traced)
		}()
	}
	g, ctx := errgroup.WithContext(ctx)
	if l.readOnly != nil {
		g.Go(func() error {
			return server.Serve(ctx, l.readOnly, counted.Servers.Count(metrics.ReadOnly, server.ReadOnly(a, a.Measures())), log)
		})
	}
	if address := cfg.HealthzAddress(); address != "" {
		g.Go(func() error { serveHealthz(ctx, address, server.Healthz(a), log); return nil })
	}
	g.Go(func() error { return a.Run(ctx) })
	g.Go(func() error { return manager.Run(ctx) })
	g.Go(func() error { process.keep(ctx, cfg, log); return nil })
	g.Go(func() error { return keepChains(ctx, cfg, log) })
	if err := manager.Ready(); err != nil {
		log.Error("cannot report readiness to systemd", "err", err)
	}
	return g.Wait()
}

// announce logs the main settings, and warns about missing ones.
func announce(cfg *config.Config, log *slog.Logger) {
	k, flags := &cfg.Kubelet, &cfg.Flags
	mode := "kubelet, standalone"
	if flags.Kubeconfig != "" {
		mode = "kubelet, node of a cluster"
	}
	log.Info(mode, "version", node.Version, "kubeconfig", flags.Kubeconfig, "node", flags.NodeName, "runtime", k.ContainerRuntimeEndpoint, "manifests", k.StaticPodPath,
		"root", flags.RootDir, "logs", k.PodLogsDir, "API", cfg.APIAddress(), "healthz", cfg.HealthzAddress(), "read-only", cfg.ReadOnlyAddress())
	if k.StaticPodPath == "" && k.StaticPodURL == "" && flags.Kubeconfig == "" {
		log.Warn("no --pod-manifest-path, --manifest-url or --kubeconfig: no pods to start; running pods are left unchanged")
	}
	for _, warning := range cfg.Warnings {
		log.Warn("configuration accepted with a warning", "warning", warning)
	}
	if cfg.APIAddress() == "" {
		log.Warn("kubelet API disabled (enableServer): no logs, exec, attach, port-forward; without --kubeconfig it requires authentication and authorization settings")
	}
}

// stuck returns an error for a failure that only a restart fixes. An unavailable runtime is no such
// failure.
func stuck(checks []server.Check) error {
	for _, c := range checks {
		if c.Name == "syncloop" && !c.OK {
			return fmt.Errorf("%s: %s", c.Name, c.Message)
		}
	}
	return nil
}

// listeners are the ports that must be free. They are opened before anything else starts, so that a
// used port is found early. A nil listener is not served.
type listeners struct{ readOnly, api net.Listener }

func listenAll(ctx context.Context, cfg *config.Config) (l listeners, err error) {
	if l.readOnly, err = listen(ctx, "--read-only-port", cfg.ReadOnlyAddress()); err != nil {
		return l, err
	}
	if l.api, err = listen(ctx, "--port", cfg.APIAddress()); err != nil {
		l.close()
	}
	return l, err
}

// statusPage returns the URL of the status page of a server that listens on an address.
func statusPage(address net.Addr) string {
	host := address.String()
	if tcp, ok := address.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		host = net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	return "http://" + host + "/statusz/pods"
}

func (l listeners) close() {
	for _, one := range []net.Listener{l.readOnly, l.api} {
		if one != nil {
			_ = one.Close() // a server may have closed it
		}
	}
}

// hostCgroups returns nil for the embedded runtime, whose containers have no cgroups.
func hostCgroups(cfg *config.Config) func(podcgroups.Driver) (cgroups.Kernel, error) {
	if cfg.Kubelet.ContainerRuntimeEndpoint == config.Embedded {
		return nil
	}
	return func(driver podcgroups.Driver) (cgroups.Kernel, error) { return cgroups.NewHost(driver) }
}

func connector(cfg *config.Config, counted *metrics.Runtime, tracer *tracing.Tracer, log *slog.Logger) agent.Connector {
	k := &cfg.Kubelet
	if k.ContainerRuntimeEndpoint == config.Embedded {
		log.Warn("embedded runtime: containers are processes of this host without isolation, and end with the kubelet")
		return connectEmbedded(filepath.Join(cfg.Flags.RootDir, "embedded"), log)
	}
	// The callers log failures, so the client has no Logger.
	client := cri.ClientConfig{
		RequestTimeout: k.RuntimeRequestTimeout.Duration,
		OnCall:         func(c cri.CallInfo) { counted.Called(c); logCall(log, c) },
	}
	if tracer != nil {
		client.Span = tracer.CallSpan
	}
	runtime, images := client, client
	runtime.Endpoint, images.Endpoint = k.ContainerRuntimeEndpoint, k.ImageServiceEndpoint
	return agent.Dial(runtime, images)
}

// logCall logs calls of the runtime, visible with --v=4.
func logCall(log *slog.Logger, c cri.CallInfo) {
	log.Debug("call to the runtime", "call", c.Call, "took", c.Duration, "err", c.Err)
}

// connectEmbedded returns a Connector that starts a runtime in this process, with its state in a
// folder.
func connectEmbedded(dir string, log *slog.Logger) agent.Connector {
	return func(context.Context) (*agent.Connection, error) {
		rt, err := embedded.New(embedded.Config{StateDir: dir, Logger: log})
		if err != nil {
			return nil, fmt.Errorf("embedded runtime: %w", err)
		}
		return &agent.Connection{Runtime: rt, Images: rt, Name: config.Embedded, Close: rt.Close}, nil
	}
}

func listen(ctx context.Context, what, address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return l, nil
}

const healthzRetry = 5 * time.Second

// serveHealthz retries until the port is free, so that a used port does not stop pods. It logs an
// error when its text changes.
func serveHealthz(ctx context.Context, address string, handler http.Handler, log *slog.Logger) {
	last := ""
	for ctx.Err() == nil {
		l, err := listen(ctx, "--healthz-port", address)
		if err == nil {
			err = server.Serve(ctx, l, handler, log)
		}
		if err == nil || errors.Is(err, context.Canceled) {
			return
		}
		if text := err.Error(); text != last {
			log.Error("cannot serve healthz; trying again", "err", err)
			last = text
		}
		select {
		case <-ctx.Done():
		case <-time.After(healthzRetry):
		}
	}
}
