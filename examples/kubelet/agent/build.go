package agent

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/images/gc"
	"github.com/podwright/podwright/cri/images/records"
	"github.com/podwright/podwright/cri/logs"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/hooks"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/cri/podsyncer"
	"github.com/podwright/podwright/examples/kubelet/allocatable"
	"github.com/podwright/podwright/examples/kubelet/server"
	"github.com/podwright/podwright/examples/kubelet/summary"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/allocation"
	"github.com/podwright/podwright/syncloop/eviction"
	"github.com/podwright/podwright/syncloop/podsource"
	"github.com/podwright/podwright/volume/podfolder"
)

// inputs are the parts that work without a runtime: the pods that should run, the objects they refer
// to, the machine, and the state of an earlier agent.
type inputs struct {
	cfg     *Config
	folders folders
	// dirty receives the pods that the loop is to look at again.
	dirty      syncloop.Inbox
	changes    *objectChanges
	cluster    *cluster // nil without an API server
	sources    *sources
	recorder   recorder
	machine    *machine
	references references
	checkpoint *checkpoint.Store
	allocated  *allocation.Store
	actuated   actuated
	// allocatable returns the resources of the Node for pods.
	allocatable func() v1.ResourceList
	// api is nil without a listener, and before newAPI.
	api *api
}

// newInputs builds the parts in this order. runtime receives statuses of pods from the API server.
func newInputs(cfg *Config, runtime *connected) (_ *inputs, err error) {
	in := &inputs{cfg: cfg, folders: folders{root: cfg.Flags.RootDir}, changes: newObjectChanges(), sources: new(sources)}
	if in.cluster, err = newCluster(cfg, in.changes, runtime); err != nil {
		return nil, err
	}
	in.recorder = newRecorder(cfg, in.sources.origin, in.cluster)
	if err = in.sources.open(cfg, in.folders, in.recorder, in.cluster); err != nil {
		return nil, err
	}
	if in.machine, err = newMachine(cfg); err != nil {
		return nil, err
	}
	in.allocatable = func() v1.ResourceList { return in.thisNode().Status.Allocatable }
	if in.references, err = newReferences(cfg, in.changes, in.cluster); err != nil {
		return nil, err
	}
	if in.checkpoint, err = checkpoint.New(checkpoint.Config{File: in.folders.status}); err != nil {
		return nil, err
	}
	if in.allocated, err = allocation.Open(filepath.Join(in.folders.root, allocation.AllocatedFile)); err != nil {
		return nil, err
	}
	in.actuated.Store, err = allocation.Open(filepath.Join(in.folders.root, allocation.ActuatedFile))
	return in, err
}

// thisNode returns the Node with its labels, from the API server if the agent has seen it there.
func (in *inputs) thisNode() *v1.Node {
	if seen := in.cluster.thisNode(); seen != nil {
		return seen
	}
	return in.machine.node
}

// node is the parts that need a connection to the runtime.
type node struct {
	in   *inputs
	conn *Connection

	health  health
	records *records.Store
	images  *images.Manager
	rotator *logs.Rotator
	logs    *logs.Reader

	cgroups  *podCgroups           // nil if pods have no cgroups
	enforcer *allocatable.Enforcer // nil without cgroups
	users    *pods.UserNamespaces
	volumes  volumes
	stages   *stages.List

	lifecycle  *lifecycle
	fit        *admission.Fit
	allocation *allocation.Manager
	imageGC    *gc.Manager
	summary    *summary.Provider
	evictor    *eviction.Manager
	shutdown   *nodeShutdown // nil if pods do not end before the machine
	syncer     *podsyncer.Syncer

	// sessions and commands are endpoints of the kubelet API.
	sessions, commands http.Handler
}

// newNode builds the parts in this order. Each part depends on the inputs and on parts above it.
// Calls in the other direction go through lifecycle, whose methods need the syncer, or into the loop
// as events.
func newNode(ctx context.Context, in *inputs, conn *Connection) (_ *node, err error) {
	cfg := in.cfg
	countConnection(cfg.Metrics, conn)
	n := &node{in: in, conn: conn}

	// The runtime.
	if n.health, err = newHealth(cfg, conn, in.cluster); err != nil {
		return nil, err
	}
	if n.records, err = newRecords(cfg); err != nil {
		return nil, err
	}
	if n.images, err = newImages(cfg, conn, n.records, in.references, in.recorder); err != nil {
		return nil, err
	}
	if n.rotator, err = newRotator(cfg, conn); err != nil {
		return nil, err
	}
	if n.logs, err = logs.NewReader(logs.ReaderConfig{States: logs.RuntimeStates(conn.Runtime), Logger: cfg.Logger}); err != nil {
		return nil, err
	}

	// The resources of pods on the node.
	if n.cgroups, err = newCgroups(ctx, cfg, conn.driver, in.folders, in.recorder); err != nil {
		return nil, err
	}
	if n.enforcer, err = newEnforcer(cfg, in.machine, n.cgroups, in.recorder); err != nil {
		return nil, err
	}
	if err = n.newStages(ctx); err != nil {
		return nil, err
	}

	// The parts that act on pods.
	n.lifecycle = &lifecycle{cfg: cfg, recorder: in.recorder}
	if n.fit, err = n.lifecycle.newFit(in.allocatable); err != nil {
		return nil, err
	}
	if n.allocation, err = newAllocation(in, n.fit); err != nil {
		return nil, err
	}
	n.lifecycle.allocation = n.allocation
	if n.imageGC, err = newImageGC(cfg, conn, n.records, n.images, in.recorder, n.lifecycle); err != nil {
		return nil, err
	}
	if n.summary, err = n.newSummary(); err != nil {
		return nil, err
	}
	if n.evictor, err = n.newEvictor(); err != nil {
		return nil, err
	}
	if n.shutdown, err = newShutdown(in, n.lifecycle, n.volumes); err != nil {
		return nil, err
	}
	if n.syncer, err = n.newSyncer(); err != nil {
		return nil, err
	}
	n.lifecycle.syncer = n.syncer

	// The kubelet API, and changes at the API server.
	if n.sessions, err = newSessions(cfg, conn.Runtime, n.syncer, n.logs); err != nil {
		return nil, err
	}
	n.commands = server.NewCommands(commands{runtime: conn.Runtime, syncer: n.syncer, dir: filepath.Join(in.folders.root, "checkpoints")})
	in.cluster.onNode(n.volumes.manager.Wake)
	return n, nil
}

func newRecords(cfg *Config) (*records.Store, error) {
	return records.Open(records.Config{
		Dir:       filepath.Join(cfg.Flags.RootDir, "image_manager"),
		Policy:    records.Policy(cfg.Kubelet.ImagePullCredentialsVerificationPolicy),
		Allowlist: cfg.Kubelet.PreloadedImagesVerificationAllowlist,
		Checked:   cfg.Metrics.Images.Checked,
		Logger:    cfg.Logger,
	})
}

func newImages(cfg *Config, conn *Connection, store *records.Store, from references, recorder recorder) (*images.Manager, error) {
	source, err := newCredentials(cfg, from, recorder)
	if err != nil {
		return nil, err
	}
	k := &cfg.Kubelet
	return images.New(images.Config{
		Service:          conn.Images,
		MaxParallelPulls: parallelPulls(k),
		QPS:              float64(unlimited(int(*k.RegistryPullQPS))),
		Burst:            int(k.RegistryBurst),
		Credentials:      source,
		Records:          store,
		Span:             cfg.Span,
		Metrics:          imageMetrics(cfg.Metrics),
		Event:            recorder.event,
		Logger:           cfg.Logger,
	})
}

func newRotator(cfg *Config, conn *Connection) (*logs.Rotator, error) {
	k := &cfg.Kubelet
	size, err := logSize(k)
	if err != nil {
		return nil, err
	}
	return logs.NewRotator(logs.RotatorConfig{
		Runtime:  conn.Runtime,
		MaxSize:  size,
		MaxFiles: int(*k.ContainerLogMaxFiles),
		Workers:  int(*k.ContainerLogMaxWorkers),
		Period:   k.ContainerLogMonitorInterval.Duration,
		OnRotate: cfg.Metrics.Pods.Rotated,
		Logger:   cfg.Logger,
	})
}

// open builds the sources that the configuration names.
func (s *sources) open(cfg *Config, folders folders, recorder recorder, c *cluster) (err error) {
	k := &cfg.Kubelet
	merged := podsource.MergerConfig{Event: recorder.event, Logger: cfg.Logger}
	if k.StaticPodPath == "" && k.StaticPodURL == "" && c == nil {
		// A source that never reports keeps the pods that run.
		merged.Sources = []string{fileSource}
	}
	if s.merger, err = podsource.NewMerger(merged); err != nil {
		return err
	}
	decoder := podsource.Decoder{NodeName: cfg.Flags.NodeName, Check: cfg.unsupported, Volumes: volumeKinds}
	if cfg.Flags.ObjectsDir != "" {
		decoder.Objects = objectKinds
	}
	if k.StaticPodPath != "" {
		s.files, err = podsource.NewFileSource(podsource.FileConfig{
			Path:     k.StaticPodPath,
			Merger:   s.merger,
			Source:   fileSource,
			Decoder:  decoder,
			Period:   k.FileCheckFrequency.Duration,
			StateDir: folders.manifests(),
			Logger:   cfg.Logger,
		})
	}
	if err == nil && c != nil {
		s.api, err = c.newPods(cfg, s.merger)
	}
	if err != nil || k.StaticPodURL == "" {
		return err
	}
	s.web, err = podsource.NewHTTPSource(podsource.HTTPConfig{
		URL:     k.StaticPodURL,
		Header:  k.StaticPodURLHeader,
		Merger:  s.merger,
		Source:  httpSource,
		Decoder: decoder,
		Period:  k.HTTPCheckFrequency.Duration,
		Logger:  cfg.Logger,
	})
	return err
}

// newStages builds the resources of pods besides containers, and the list of their stages. The garbage
// collection removes logs with their containers. The syncer removes saved statuses.
func (n *node) newStages(ctx context.Context) error {
	cfg := n.in.cfg
	folders, err := podfolder.New(podfolder.Config{Root: n.in.folders.pods()})
	if err != nil {
		return err
	}
	if n.users, err = newUsers(ctx, cfg, folders); err != nil {
		return err
	}
	if n.volumes, err = newVolumes(n.in); err != nil {
		return err
	}
	logs, err := pods.NewLogStage(pods.LogStageConfig{LogRoot: cfg.Kubelet.PodLogsDir, LinkDir: cfg.Flags.ContainerLogsDir})
	if err != nil {
		return err
	}
	n.stages, err = stages.New(stages.Config{Stages: slices.Concat([]stages.Entry{
		{Name: "folder", Release: stages.Gone, Stage: folders},
		{Name: "users", Release: stages.Stopped, Stage: n.users.Stage()},
	}, n.cgroups.entries(), []stages.Entry{
		{Name: "volumes", Release: stages.Stopped, Stage: n.volumes.manager},
		{Name: "logs", Release: stages.Gone, Stage: logs},
		{Name: "allocation", Release: stages.Gone, Stage: n.in.allocated.Stage()},
	})})
	return err
}

func (n *node) newSyncer() (*podsyncer.Syncer, error) {
	in, cfg, c := n.in, n.in.cfg, n.in.cluster
	addresses := addresses{look: nodeIPs}
	observer, err := observe.New(observe.Config{Runtime: n.conn.Runtime, RuntimeName: n.conn.Name, NodeIPs: addresses.get, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	runner, err := hooks.New(hooks.Config{Exec: n.conn.Runtime, PodIPs: observer.PodIPs, Event: in.recorder.event, Metrics: cfg.Metrics.Pods.Hooks()})
	if err != nil {
		return nil, err
	}
	probers, err := probers(n.conn.Runtime)
	if err != nil {
		return nil, err
	}
	node := describeNode(cfg.Config)
	node.Allocatable = in.machine.forPods()
	return podsyncer.New(podsyncer.Config{
		Pods: pods.Config{
			Runtime:           n.conn.Runtime,
			Images:            n.images,
			RuntimeName:       n.conn.Name,
			LogRoot:           cfg.Kubelet.PodLogsDir,
			LinkDir:           cfg.Flags.ContainerLogsDir,
			PodDir:            in.folders.pod,
			MaxCrashLoopDelay: cfg.Kubelet.CrashLoopBackOff.MaxContainerRestartPeriod.Duration,
			Inputs: request.Inputs{
				ConfigMaps: in.references, Secrets: in.references, Volumes: n.volumes.manager, SubPaths: n.volumes.subPaths,
				Services: c.services(), ExtraGroups: n.volumes.manager.ExtraGroups,
				UserNamespace: n.users.Of, HandlerFeatures: c.handlerFeatures(n.health), NodeIPs: addresses.get,
			},
			RuntimeHandler: c.runtimeHandler(),
			Hooks:          runner,
			Metrics:        cfg.Metrics.Pods.Callbacks(),
			Actuated:       in.actuated,
			CgroupParent:   n.cgroups.parent(),
			PodCgroups:     n.cgroups.resizes(),
			Node:           node,
			DNS:            dns(&cfg.Kubelet),
		},
		Checkpoint:      in.checkpoint,
		Statuses:        statusConfig(cfg.Metrics, c),
		PLEG:            pleg.Config{Runtime: observer, AdaptiveRelist: cfg.Flags.AdaptiveRelist, Metrics: cfg.Metrics.Observer.Callbacks()},
		Probes:          probe.Config{Probers: probers, Metrics: cfg.Metrics.Probes.Callbacks()},
		Workers:         podworkers.Config{ResyncInterval: cfg.Kubelet.SyncFrequency.Duration, OnTransition: cfg.Metrics.Pods.Moved, OnCall: cfg.Metrics.Pods.Called},
		Handler:         n.handlerConfig(),
		Loop:            n.loopConfig(),
		Stages:          n.stages,
		DeadContainers:  deadContainers(&cfg.Flags),
		NetworkReady:    n.health.networkReady,
		HostIPs:         addresses.get,
		Elsewhere:       c.elsewhere(),
		Amend:           func(pod *v1.Pod, s v1.PodStatus) v1.PodStatus { return amend(n.allocation, pod, s) },
		OnSync:          c.mirror(),
		Span:            cfg.Span,
		ShutdownTimeout: cfg.ShutdownTimeout,
		Event:           in.recorder.event,
		Logger:          cfg.Logger,
	})
}

func newImageGC(cfg *Config, conn *Connection, store *records.Store, manager *images.Manager, recorder recorder, l *lifecycle) (*gc.Manager, error) {
	return gc.New(gc.Config{
		Images:          conn.Images,
		Containers:      conn.Runtime,
		Policy:          imageGC(&cfg.Kubelet),
		CollectInterval: cfg.ImageGCInterval,
		InUse: func(ctx context.Context) ([]string, error) {
			return imagesInUse(ctx, conn.Images, manager, l.current())
		},
		Remaining: store.Tidy,
		Span:      cfg.Span,
		Removed:   cfg.Metrics.Images.Removed,
		Node:      recorder.node,
		Event:     recorder.event,
		Logger:    cfg.Logger,
	})
}

func (n *node) handlerConfig() syncloop.HandlerConfig {
	cleaners := []syncloop.Cleaner{n.volumes.cleaner(n.in.sources.merger.Ready), n.allocation.Cleaner(n.in.actuated.Store)}
	if c := n.in.cluster; c != nil {
		cleaners = append(cleaners, c.mirrors.Cleaner(), c.objectsCleaner(n.volumes.manager))
	}
	metrics := n.in.cfg.Metrics.Pods
	return syncloop.HandlerConfig{
		Desired: &n.lifecycle.desired, Admit: counted(metrics.Rejected, n.allocation.Admitter(n.newAdmitter()).Admit), Order: n.lifecycle.order,
		Allocator: n.allocation, OnRestart: metrics.Restarted, Cleaners: cleaners,
	}
}

func (n *node) loopConfig() syncloop.Config {
	sources := n.in.sources.events()
	sources["volumes"] = &n.in.dirty
	return syncloop.Config{
		Pods:       n.in.sources.merger,
		Sources:    sources,
		Health:     n.health.runtimeHealth,
		StallLimit: max(5*time.Minute, 2*n.in.cfg.Kubelet.SyncFrequency.Duration),
	}
}
