package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/images/gc"
	"github.com/podwright/podwright/cri/images/records"
	"github.com/podwright/podwright/cri/logs"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/hooks"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/cri/podsyncer"
	"github.com/podwright/podwright/examples/kubelet/server"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
	"github.com/podwright/podwright/volume/podfolder"
)

// ground is what every part may stand on, and what works before there is a connection:
// which pods there should be, what they refer to, and what was saved of them.
type ground struct {
	cfg     Config
	folders folders
	event   recorder
	logged  recorder // the part of event that needs no API server
	sources
	named      named // what pods refer to by name
	checkpoint *checkpoint.Store
	granted
	cluster *cluster       // nil without an API server
	dirty   syncloop.Inbox // pods that the loop is to look at, as volumes and objects tell
	conn    *Connection    // not before newNode
	// serving is the certificate of the kubelet API, nil before newAPI.
	serving atomic.Pointer[func() *tls.Certificate]
	// watchDrivers is csi.RegistryConfig.Watch: a bubble cannot have the kernel's.
	watchDrivers func(ctx context.Context, look func() (folders []string)) error
	// allocatable is what the Node has for pods, as far as that is known.
	allocatable func() v1.ResourceList
	// self is what the machine has for pods, as far as that is known without an API server:
	// nil before newEnforcer.
	self atomic.Pointer[v1.NodeStatus]
}

// newGround builds it.
func newGround(cfg Config, f folders, runtime *connected) (_ *ground, err error) {
	g := &ground{cfg: cfg, folders: f}
	g.allocatable = func() v1.ResourceList { return g.thisNode().Status.Allocatable }
	g.logged = logEvents(cfg.Logger, func(pod types.UID) string { return g.origin(pod) })
	g.event = g.logged
	if cfg.Flags.Kubeconfig != "" {
		if g.cluster, err = g.newCluster(runtime); err != nil {
			return nil, err
		}
		g.event = both(g.event, g.cluster.recorder.Event)
		if g.cluster.rotation, err = g.newClientRotation(); err != nil {
			return nil, err
		}
	}
	if g.sources, err = g.newSources(); err != nil {
		return nil, err
	}
	if g.named, err = g.newNamed(); err != nil {
		return nil, err
	}
	if g.checkpoint, err = checkpoint.New(checkpoint.Config{File: f.status}); err != nil {
		return nil, err
	}
	g.granted, err = openGranted(cfg.Flags.RootDir)
	return g, err
}

// runWith keeps up with the API server while f runs, and a moment longer, so that what f
// tells at its end gets there. Each ends the other.
func (g *ground) runWith(ctx context.Context, f func(context.Context) error) error {
	if g.cluster == nil {
		return f(ctx)
	}
	acting, stop := context.WithCancel(ctx)
	defer stop()
	asked, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	ended := make(chan error, 1)
	go func() {
		defer stop()
		ended <- g.cluster.run(asked)
	}()
	err := f(acting)
	end()
	return errors.Join(err, <-ended)
}

// newNode builds the parts bottom-up, each from the ground and from parts above it in
// this list. What a part has to tell those below it in the list, the syncer emits into
// the loop.
func newNode(ctx context.Context, g *ground, conn *Connection) (_ *node, err error) {
	g.conn = conn
	g.countConnection()
	n := &node{ground: g}

	// What talks to the runtime.
	if n.health, err = g.newHealth(); err != nil {
		return nil, err
	}
	if n.records, err = g.newRecords(); err != nil {
		return nil, err
	}
	if n.images, err = g.newImages(n.records, n.named); err != nil {
		return nil, err
	}
	if n.rotator, err = g.newRotator(); err != nil {
		return nil, err
	}
	if n.logs, err = logs.NewReader(logs.ReaderConfig{States: logs.RuntimeStates(conn.Runtime), Logger: g.cfg.Logger}); err != nil {
		return nil, err
	}

	// What each pod holds on the node.
	if n.cgroups, err = g.newCgroups(ctx); err != nil {
		return nil, err
	}
	if n.enforcer, err = g.newEnforcer(n.cgroups); err != nil {
		return nil, err
	}
	if n.held, err = g.newHeld(ctx, n.cgroups, n.named); err != nil {
		return nil, err
	}

	// What acts on pods.
	if n.fit, err = n.newFit(); err != nil {
		return nil, err
	}
	if g.allocation, err = g.newAllocation(n.fit); err != nil {
		return nil, err
	}
	if n.syncer, err = n.newSyncer(); err != nil {
		return nil, err
	}
	n.statuses, n.probes, n.workers, n.handler, n.loop = n.syncer.Statuses(), n.syncer.Probes(), n.syncer.Workers(), n.syncer.Handler(), n.syncer.Loop()
	if n.imageGC, err = n.newImageGC(); err != nil {
		return nil, err
	}
	if n.summary, err = n.newSummary(); err != nil {
		return nil, err
	}
	if n.evictor, err = n.newEvictor(); err != nil {
		return nil, err
	}
	if n.shutdown, err = n.newShutdown(); err != nil {
		return nil, err
	}
	if n.sessions, err = newSessions(&g.cfg, conn.Runtime, n.syncer, n.logs); err != nil {
		return nil, err
	}
	n.commands = server.NewCommands(commands{runtime: conn.Runtime, syncer: n.syncer, dir: filepath.Join(g.folders.root, "checkpoints")})
	if g.cluster != nil {
		g.cluster.onNode(n.volumes.manager.Wake)
	}
	return n, nil
}

func (g *ground) newRecords() (*records.Store, error) {
	return records.Open(records.Config{
		Dir:       filepath.Join(g.cfg.Flags.RootDir, "image_manager"),
		Policy:    records.Policy(g.cfg.Kubelet.ImagePullCredentialsVerificationPolicy),
		Allowlist: g.cfg.Kubelet.PreloadedImagesVerificationAllowlist,
		Checked:   g.cfg.Metrics.Images.Checked,
		Logger:    g.cfg.Logger,
	})
}

func (g *ground) newImages(store *records.Store, from named) (*images.Manager, error) {
	source, err := g.credentials(from)
	if err != nil {
		return nil, err
	}
	k := &g.cfg.Kubelet
	return images.New(images.Config{
		Service:          g.conn.Images,
		MaxParallelPulls: parallelPulls(k),
		QPS:              float64(unlimited(int(*k.RegistryPullQPS))),
		Burst:            int(k.RegistryBurst),
		Credentials:      source,
		Records:          store,
		Span:             g.cfg.Span,
		Metrics:          g.imageMetrics(),
		Event:            g.event,
		Logger:           g.cfg.Logger,
	})
}

func (g *ground) newRotator() (*logs.Rotator, error) {
	k := &g.cfg.Kubelet
	size, err := logSize(k)
	if err != nil {
		return nil, err
	}
	return logs.NewRotator(logs.RotatorConfig{
		Runtime:  g.conn.Runtime,
		MaxSize:  size,
		MaxFiles: int(*k.ContainerLogMaxFiles),
		Workers:  int(*k.ContainerLogMaxWorkers),
		Period:   k.ContainerLogMonitorInterval.Duration,
		OnRotate: g.cfg.Metrics.Pods.Rotated,
		Logger:   g.cfg.Logger,
	})
}

func (g *ground) newSources() (s sources, err error) {
	k := &g.cfg.Kubelet
	cfg := podsource.MergerConfig{Event: g.event, Logger: g.cfg.Logger}
	if k.StaticPodPath == "" && k.StaticPodURL == "" && g.cluster == nil {
		// Nobody says which pods should be there. A source that never reports
		// leaves alone what runs.
		cfg.Sources = []string{fileSource}
	}
	if s.merger, err = podsource.NewMerger(cfg); err != nil {
		return s, err
	}
	decoder := podsource.Decoder{NodeName: g.cfg.Flags.NodeName, Check: g.unsupported, Volumes: volumeKinds}
	if g.cfg.Flags.ObjectsDir != "" {
		decoder.Objects = objectKinds
	}
	if k.StaticPodPath != "" {
		s.files, err = podsource.NewFileSource(podsource.FileConfig{
			Path:     k.StaticPodPath,
			Merger:   s.merger,
			Source:   fileSource,
			Decoder:  decoder,
			Period:   k.FileCheckFrequency.Duration,
			StateDir: g.folders.manifests(),
			Logger:   g.cfg.Logger,
		})
	}
	if err == nil && g.cluster != nil {
		s.api, err = g.cluster.newPods(g.cfg, s.merger)
	}
	if err != nil || k.StaticPodURL == "" {
		return s, err
	}
	s.web, err = podsource.NewHTTPSource(podsource.HTTPConfig{
		URL:     k.StaticPodURL,
		Header:  k.StaticPodURLHeader,
		Merger:  s.merger,
		Source:  httpSource,
		Decoder: decoder,
		Period:  k.HTTPCheckFrequency.Duration,
		Logger:  g.cfg.Logger,
	})
	return s, err
}

// held is what pods hold on the node besides their containers. Their logs go with the
// containers, and with the garbage collection; the syncer removes what was saved of them.
type held struct {
	users   *pods.UserNamespaces
	volumes volumes
	stages  *stages.List
}

func (g *ground) newHeld(ctx context.Context, cgroups *podCgroups, from named) (h held, err error) {
	folders, err := podfolder.New(podfolder.Config{Root: g.folders.pods()})
	if err != nil {
		return h, err
	}
	if h.users, err = g.newUsers(ctx, folders); err != nil {
		return h, err
	}
	if h.volumes, err = g.newVolumes(from); err != nil {
		return h, err
	}
	logs, err := pods.NewLogStage(pods.LogStageConfig{LogRoot: g.cfg.Kubelet.PodLogsDir, LinkDir: g.cfg.Flags.ContainerLogsDir})
	if err != nil {
		return h, err
	}
	h.stages, err = stages.New(stages.Config{Stages: slices.Concat([]stages.Entry{
		{Name: "folder", Release: stages.Gone, Stage: folders},
		{Name: "users", Release: stages.Stopped, Stage: h.users.Stage()},
	}, cgroups.entries(), []stages.Entry{
		{Name: "volumes", Release: stages.Stopped, Stage: h.volumes.manager},
		{Name: "logs", Release: stages.Gone, Stage: logs},
		{Name: "allocation", Release: stages.Gone, Stage: g.allocated.Stage()},
	})})
	return h, err
}

func (n *node) newSyncer() (*podsyncer.Syncer, error) {
	addresses := addresses{look: nodeIPs}
	observer, err := observe.New(observe.Config{Runtime: n.conn.Runtime, RuntimeName: n.conn.Name, NodeIPs: addresses.get, Logger: n.cfg.Logger})
	if err != nil {
		return nil, err
	}
	runner, err := hooks.New(hooks.Config{Exec: n.conn.Runtime, PodIPs: observer.PodIPs, Event: n.event, Metrics: n.cfg.Metrics.Pods.Hooks()})
	if err != nil {
		return nil, err
	}
	probers, err := probers(n.conn.Runtime)
	if err != nil {
		return nil, err
	}
	node := describeNode(n.cfg.Config)
	node.Allocatable = n.forPods()
	return podsyncer.New(podsyncer.Config{
		Pods: pods.Config{
			Runtime:           n.conn.Runtime,
			Images:            n.images,
			RuntimeName:       n.conn.Name,
			LogRoot:           n.cfg.Kubelet.PodLogsDir,
			LinkDir:           n.cfg.Flags.ContainerLogsDir,
			PodDir:            n.folders.pod,
			MaxCrashLoopDelay: n.cfg.Kubelet.CrashLoopBackOff.MaxContainerRestartPeriod.Duration,
			Inputs: request.Inputs{
				ConfigMaps: n.named, Secrets: n.named, Volumes: n.volumes.manager, SubPaths: n.volumes.subPaths,
				Services: n.services(), ExtraGroups: n.volumes.manager.ExtraGroups,
				UserNamespace: n.users.Of, HandlerFeatures: n.handlerFeatures(n.health), NodeIPs: addresses.get,
			},
			RuntimeHandler: n.runtimeHandler(),
			Hooks:          runner,
			Metrics:        n.cfg.Metrics.Pods.Callbacks(),
			Actuated:       n.told,
			CgroupParent:   n.cgroups.parent(),
			PodCgroups:     n.cgroups.resizes(),
			Node:           node,
			DNS:            dns(&n.cfg.Kubelet),
		},
		Checkpoint:      n.checkpoint,
		Statuses:        n.statusConfig(),
		PLEG:            pleg.Config{Runtime: observer, AdaptiveRelist: n.cfg.Flags.AdaptiveRelist, Metrics: n.cfg.Metrics.Observer.Callbacks()},
		Probes:          probe.Config{Probers: probers, Metrics: n.cfg.Metrics.Probes.Callbacks()},
		Workers:         podworkers.Config{ResyncInterval: n.cfg.Kubelet.SyncFrequency.Duration, OnTransition: n.cfg.Metrics.Pods.Moved, OnCall: n.cfg.Metrics.Pods.Called},
		Handler:         n.handlerConfig(),
		Loop:            n.loopConfig(),
		Stages:          n.stages,
		DeadContainers:  deadContainers(&n.cfg.Flags),
		NetworkReady:    n.health.networkReady,
		HostIPs:         addresses.get,
		Elsewhere:       n.elsewhere(),
		Amend:           n.amend,
		OnSync:          n.mirror(),
		Span:            n.cfg.Span,
		ShutdownTimeout: n.cfg.ShutdownTimeout,
		Event:           n.event,
		Logger:          n.cfg.Logger,
	})
}

func (n *node) newImageGC() (*gc.Manager, error) {
	return gc.New(gc.Config{
		Images:          n.conn.Images,
		Containers:      n.conn.Runtime,
		Policy:          imageGC(&n.cfg.Kubelet),
		CollectInterval: n.cfg.ImageGCInterval,
		InUse:           n.imagesInUse,
		Remaining:       n.records.Tidy,
		Span:            n.cfg.Span,
		Removed:         n.cfg.Metrics.Images.Removed,
		Node:            nodeReference(n.cfg.Flags.NodeName),
		Event:           n.event,
		Logger:          n.cfg.Logger,
	})
}

func (n *node) handlerConfig() syncloop.HandlerConfig {
	cleaners := []syncloop.Cleaner{n.volumes.cleaner(n.merger.Ready), n.allocation.Cleaner(n.told.Store)}
	if n.cluster != nil {
		cleaners = append(cleaners, n.cluster.mirrors.Cleaner(), n.cluster.objectsCleaner(n.volumes.manager))
	}
	admit := n.counted(n.allocation.Admitter(n.newAdmitter()).Admit)
	return syncloop.HandlerConfig{Desired: &n.desired, Admit: admit, Order: n.order, Allocator: n.allocation, OnRestart: n.cfg.Metrics.Pods.Restarted, Cleaners: cleaners}
}

func (n *node) loopConfig() syncloop.Config {
	sources := n.events()
	sources["volumes"] = &n.dirty
	return syncloop.Config{
		Pods:       n.merger,
		Sources:    sources,
		Health:     n.health.runtimeHealth,
		StallLimit: max(5*time.Minute, 2*n.cfg.Kubelet.SyncFrequency.Duration),
	}
}
