package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images/gc"
	"github.com/podwright/podwright/cri/images/records"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/examples/kubelet/agent"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/examples/kubelet/server"
)

// run runs the agent and its servers until ctx ends or one of them fails.
func run(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	log.Info("kubelet, standalone", "node", cfg.NodeName, "runtime", cfg.RuntimeEndpoint, "manifests", cfg.PodManifestPath,
		"root", cfg.RootDir, "logs", cfg.PodLogsDir, "healthz", cfg.HealthzAddress, "read-only", cfg.ReadOnlyAddress)
	log.Info("kubelet defaults that are not built yet", "missing", strings.Join(config.NotBuilt(), "; "))
	if cfg.PodManifestPath == "" && cfg.ManifestURL == "" {
		log.Warn("no --pod-manifest-path and no --manifest-url: there is nothing to run, and what runs is left alone")
	}
	a, err := agent.New(agentConfig(cfg, log))
	if err != nil {
		return err
	}
	// A port that is taken is found before anything else begins.
	readOnly, err := listen(ctx, "--read-only-port", cfg.ReadOnlyAddress)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	if readOnly != nil {
		g.Go(func() error { return server.Serve(ctx, readOnly, server.ReadOnly(a), log) })
	}
	if cfg.HealthzAddress != "" {
		g.Go(func() error { serveHealthz(ctx, cfg.HealthzAddress, server.Healthz(a), log); return nil })
	}
	g.Go(func() error { return a.Run(ctx) })
	return g.Wait()
}

func agentConfig(cfg *config.Config, log *slog.Logger) agent.Config {
	return agent.Config{
		NodeName:                 cfg.NodeName,
		RootDir:                  cfg.RootDir,
		PodManifestPath:          cfg.PodManifestPath,
		ManifestURL:              cfg.ManifestURL,
		ManifestURLHeader:        cfg.ManifestURLHeader,
		HTTPCheckFrequency:       cfg.HTTPCheckFrequency,
		PodLogsDir:               cfg.PodLogsDir,
		ContainerLogsDir:         cfg.ContainerLogsDir,
		Connect:                  connector(cfg, log),
		SyncFrequency:            cfg.SyncFrequency,
		AdaptiveRelist:           cfg.AdaptiveRelist,
		FileCheckFrequency:       cfg.FileCheckFrequency,
		MaxCrashLoopBackoff:      cfg.MaxCrashLoopBackoff,
		MaxParallelImagePulls:    unlimited(cfg.MaxParallelImagePulls),
		RegistryPullQPS:          unlimited(cfg.RegistryPullQPS),
		RegistryBurst:            cfg.RegistryBurst,
		CredentialProviderConfig: cfg.CredentialProviderConfig,
		CredentialProviderBinDir: cfg.CredentialProviderBinDir,
		ImagePullVerification:    records.Policy(cfg.ImagePullVerification),
		ImagePullAllowlist:       cfg.ImagePullAllowlist,
		ImageGC:                  imageGC(cfg),
		LogMaxSize:               cfg.LogMaxSize,
		LogMaxFiles:              cfg.LogMaxFiles,
		LogWorkers:               cfg.LogWorkers,
		LogPeriod:                cfg.LogPeriod,
		DeadContainers:           deadContainers(cfg),
		IDsPerPod:                uint32(cfg.IDsPerPod),
		LimitedSwap:              cfg.LimitedSwap,
		DNS: pods.DNS{
			ClusterServers: cfg.ClusterDNS,
			ClusterDomain:  cfg.ClusterDomain,
			HostResolver:   cfg.ResolvConf,
			NoHostResolver: cfg.ResolvConf == "",
		},
		NoCPUQuota:           !cfg.CPUQuota,
		CPUQuotaPeriod:       cfg.CPUQuotaPeriod,
		SeccompDefault:       cfg.SeccompDefault,
		SingleProcessOOMKill: cfg.SingleProcessOOMKill,
		Logger:               log,
	}
}

// imageGC says when unused images are removed: never from the embedded runtime,
// whose images take no space.
func imageGC(cfg *config.Config) gc.Policy {
	if cfg.RuntimeEndpoint == config.Embedded {
		return gc.Policy{HighPercent: 100}
	}
	return gc.Policy{HighPercent: cfg.ImageGCHigh, LowPercent: cfg.ImageGCLow, MinAge: cfg.ImageMinAge, MaxAge: cfg.ImageMaxAge}
}

// deadContainers turns the flags' "0 is none" into the library's policy.
func deadContainers(cfg *config.Config) pods.GCPolicy {
	return pods.GCPolicy{
		MinAge:          cfg.DeadMinAge,
		MaxPerContainer: cfg.DeadPerContainer,
		KeepNone:        cfg.DeadPerContainer == 0 || cfg.DeadContainers == 0,
		MaxTotal:        cfg.DeadContainers,
	}
}

// unlimited turns the configuration file's "0 is no limit" into the libraries'
// negative number.
func unlimited(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

func connector(cfg *config.Config, log *slog.Logger) agent.Connector {
	if cfg.RuntimeEndpoint == config.Embedded {
		log.Warn("embedded runtime: containers are plain processes of this host without any isolation, and they end with the kubelet")
		return embedded(filepath.Join(cfg.RootDir, "embedded"), log)
	}
	// Without a Logger: whoever calls tells what fails.
	client := cri.ClientConfig{
		RequestTimeout: cfg.RuntimeRequestTimeout,
		Observer:       cri.Observer{CallDone: func(c cri.CallInfo) { logCall(log, c) }},
	}
	runtime, images := client, client
	runtime.Endpoint, images.Endpoint = cfg.RuntimeEndpoint, cfg.ImageEndpoint
	return agent.Dial(runtime, images)
}

// logCall makes the calls to the runtime visible with --v=4.
func logCall(log *slog.Logger, c cri.CallInfo) {
	log.Debug("call to the runtime", "call", c.Call, "took", c.Duration, "err", c.Err)
}

// embedded makes a runtime in this process, with its state in a folder.
func embedded(dir string, log *slog.Logger) agent.Connector {
	return func(context.Context) (*agent.Connection, error) {
		rt, err := fake.NewEmbedded(fake.EmbeddedConfig{StateDir: dir, Logger: log})
		if err != nil {
			return nil, fmt.Errorf("embedded runtime: %w", err)
		}
		return &agent.Connection{Runtime: rt, Images: rt, Name: config.Embedded, Close: rt.Close}, nil
	}
}

// listen returns nil for an empty address.
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

// serveHealthz keeps trying: a taken port must not keep pods from running. It
// tells once.
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
			log.Error("healthz is not served; trying again", "err", err)
			last = text
		}
		select {
		case <-ctx.Done():
		case <-time.After(healthzRetry):
		}
	}
}
