package agent

import (
	"context"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/images/gc"
	"github.com/podwright/podwright/cri/images/records"
	"github.com/podwright/podwright/cri/logs"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/cri/pods/hooks"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/cri/pods/resize"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/status/writer"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

// ground is what every part may stand on.
type ground struct {
	cfg     Config
	conn    *Connection
	folders folders
	event   recorder
	// inbox takes what the loop is to be told, also before there is a loop.
	inbox *syncloop.Inbox
	// desired are the pods that a source names. The handler of the loop keeps it.
	desired *syncloop.Desired
}

// newNode builds the parts bottom-up, each from the ground and from parts above it in
// this list. What a part has to tell those below it in the list goes into the inbox.
func newNode(ctx context.Context, cfg Config, f folders, conn *Connection) (_ *node, err error) {
	n := &node{ground: ground{cfg: cfg, conn: conn, folders: f, event: logEvents(cfg.Logger), inbox: &syncloop.Inbox{}, desired: &syncloop.Desired{}}}
	g := &n.ground

	// What talks to the runtime.
	if n.health, err = g.newHealth(); err != nil {
		return nil, err
	}
	if n.users, err = g.newUsers(ctx); err != nil {
		return nil, err
	}
	if n.records, err = g.newRecords(); err != nil {
		return nil, err
	}
	if n.images, err = g.newImages(n.records); err != nil {
		return nil, err
	}
	if n.runtimePods, err = g.newRuntimePods(); err != nil {
		return nil, err
	}
	if n.pods, err = g.newPods(n.health, n.users, n.images, n.runtimePods); err != nil {
		return nil, err
	}
	if n.garbage, err = g.newGarbage(n.pods); err != nil {
		return nil, err
	}
	if n.rotator, err = g.newRotator(); err != nil {
		return nil, err
	}
	if n.observer, err = g.newObserver(n.runtimePods); err != nil {
		return nil, err
	}

	// What is known of pods.
	if n.checkpoints, err = n.newCheckpoints(); err != nil {
		return nil, err
	}
	if n.statuses, err = g.newStatuses(n.checkpoints); err != nil {
		return nil, err
	}
	n.write = n.statuses.Run
	if n.probes, err = g.newProbes(n.statuses); err != nil {
		return nil, err
	}
	if n.sources, err = g.newSources(); err != nil {
		return nil, err
	}

	// What acts on pods. These take most of what n has by now.
	n.syncer = n.newSyncer()
	if n.workers, err = n.newWorkers(); err != nil {
		return nil, err
	}
	n.janitor = n.newJanitor()
	if n.imageGC, err = n.newImageGC(); err != nil {
		return nil, err
	}
	if n.handler, err = n.newHandler(); err != nil {
		return nil, err
	}
	if n.loop, err = n.newLoop(); err != nil {
		return nil, err
	}
	return n, nil
}

func (g *ground) newHealth() (health, error) {
	m, err := cri.NewHealthMonitor(cri.HealthConfig{Runtime: g.conn.Runtime, Logger: g.cfg.Logger})
	return health{m}, err
}

func (g *ground) newRecords() (*records.Store, error) {
	return records.Open(records.Config{
		Dir:       filepath.Join(g.cfg.Flags.RootDir, "image_manager"),
		Policy:    records.Policy(g.cfg.Kubelet.ImagePullCredentialsVerificationPolicy),
		Allowlist: g.cfg.Kubelet.PreloadedImagesVerificationAllowlist,
		Logger:    g.cfg.Logger,
	})
}

func (g *ground) newImages(store *records.Store) (*images.Manager, error) {
	source, err := g.credentials()
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
		Event:            g.event,
		Logger:           g.cfg.Logger,
	})
}

func (g *ground) newRuntimePods() (*observe.Observer, error) {
	return observe.New(observe.Config{Runtime: g.conn.Runtime, RuntimeName: g.conn.Name, NodeIPs: nodeIPs, Logger: g.cfg.Logger})
}

func (g *ground) newPods(health health, users *pods.UserNamespaces, images *images.Manager, runtimePods *observe.Observer) (*pods.Manager, error) {
	runner, err := hooks.New(hooks.Config{
		Exec:   g.conn.Runtime,
		PodIPs: runtimePods.PodIPs,
		Event:  g.event,
	})
	if err != nil {
		return nil, err
	}
	actuated, err := resize.NewFolder(resize.FolderConfig{Dir: filepath.Join(g.cfg.Flags.RootDir, "actuated_resources"), Logger: g.cfg.Logger})
	if err != nil {
		return nil, err
	}
	return pods.New(pods.Config{
		Runtime:           g.conn.Runtime,
		Images:            images,
		RuntimeName:       g.conn.Name,
		LogRoot:           g.cfg.Kubelet.PodLogsDir,
		LinkDir:           g.cfg.Flags.ContainerLogsDir,
		PodDir:            g.folders.pod,
		MaxCrashLoopDelay: g.cfg.Kubelet.CrashLoopBackOff.MaxContainerRestartPeriod.Duration,
		Inputs:            request.Inputs{Volumes: request.HostPaths{}, UserNamespace: users.Of, HandlerFeatures: health.handlerFeatures, NodeIPs: nodeIPs},
		Hooks:             runner,
		Actuated:          actuated,
		Node:              describeNode(g.cfg.Config),
		DNS:               dns(&g.cfg.Kubelet),
		Event:             g.event,
		Logger:            g.cfg.Logger,
	})
}

func (g *ground) newGarbage(manager *pods.Manager) (*garbage.Collector, error) {
	return garbage.New(garbage.Config{Runtime: g.conn.Runtime, Pods: manager, Logger: g.cfg.Logger})
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
		Logger:   g.cfg.Logger,
	})
}

func (g *ground) newObserver(runtimePods *observe.Observer) (_ *observer, err error) {
	o := newObserver()
	o.PLEG, err = pleg.New(pleg.Config{
		Runtime:         hinted{observable: runtimePods, hold: o.hold},
		OnEvent:         func(e pleg.Event) { g.inbox.Emit(observed(e)) },
		AdaptiveRelist:  g.cfg.Flags.AdaptiveRelist,
		ShutdownTimeout: g.cfg.ShutdownTimeout,
		Logger:          g.cfg.Logger,
	})
	return o, err
}

func (n *node) newCheckpoints() (*checkpoint.Keeper, error) {
	store, err := checkpoint.New(checkpoint.Config{File: n.folders.status})
	if err != nil {
		return nil, err
	}
	return checkpoint.NewKeeper(checkpoint.KeeperConfig{
		Store:  store,
		Probes: func(uid types.UID) probe.Results { return n.probes.Results(uid) }, // asked when there is a status
		Logger: n.cfg.Logger,
	})
}

func (g *ground) newStatuses(checkpoints *checkpoint.Keeper) (*writer.Writer, error) {
	return writer.New(writer.Config{
		Sinks:           []writer.NamedSink{{Name: checkpointSink, Sink: status.SinkFunc(checkpoints.Save)}},
		ShutdownTimeout: g.cfg.ShutdownTimeout,
		Logger:          g.cfg.Logger,
	})
}

func (g *ground) newProbes(statuses *writer.Writer) (*probe.Manager, error) {
	probers, err := probers(g.conn.Runtime)
	if err != nil {
		return nil, err
	}
	return probe.New(probe.Config{
		Probers: probers,
		Status:  statuses.Get,
		// What a result means for the pod's conditions is shown at once, also while a
		// worker is busy with the pod; what it means for its containers is the next
		// sync's matter.
		Changed: func(c probe.Change) {
			statuses.SetProbed(c)
			g.inbox.Emit(probed(c))
		},
		AgentStart:      time.Now(),
		ShutdownTimeout: g.cfg.ShutdownTimeout,
		Event:           g.event,
		Logger:          g.cfg.Logger,
	})
}

func (g *ground) newSources() (s sources, err error) {
	k := &g.cfg.Kubelet
	cfg := podsource.MergerConfig{Event: g.event, Logger: g.cfg.Logger}
	if k.StaticPodPath == "" && k.StaticPodURL == "" {
		// Nobody says which pods should be there. A source that never reports
		// leaves alone what runs.
		cfg.Sources = []string{fileSource}
	}
	if s.merger, err = podsource.NewMerger(cfg); err != nil {
		return s, err
	}
	decoder := podsource.Decoder{NodeName: g.cfg.Flags.NodeName, Check: g.unsupported, Volumes: []string{"hostPath", "image"}}
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

func (n *node) newSyncer() *syncer {
	return &syncer{
		log:          n.cfg.Logger,
		event:        n.event,
		runtime:      n.pods,
		garbage:      n.garbage,
		observer:     n.observer,
		statuses:     n.statuses,
		probes:       n.probes,
		checkpoints:  n.checkpoints,
		folders:      n.folders,
		networkReady: n.health.networkReady,
		hostIPs:      nodeIPs,
		desired:      n.named,
		tidy:         n.tidy,
		turns:        newTurns(),
		kept:         newUIDSet(),
		users:        n.users,
		explanations: newExplanations(),
	}
}

func (n *node) newWorkers() (*podworkers.Workers, error) {
	return podworkers.New(podworkers.Config{
		Syncer:             n.syncer,
		ResyncInterval:     n.cfg.Kubelet.SyncFrequency.Duration,
		Resync:             func(uid types.UID) { n.inbox.Emit(syncloop.Event{Kind: syncloop.SyncDue, UID: uid}) },
		TerminalPodStopped: n.stopped,
		OnTransition:       n.transition,
		ShutdownTimeout:    n.cfg.ShutdownTimeout,
		Event:              n.event,
		Logger:             n.cfg.Logger,
	})
}

func (n *node) newJanitor() *janitor {
	return &janitor{
		log:          n.cfg.Logger,
		garbage:      n.garbage,
		observer:     n.observer,
		folders:      n.folders,
		gone:         n.gone,
		unneeded:     func(uid types.UID) bool { return n.workers.State(uid).ContainersMayBeRemoved() },
		sourcesReady: n.merger.Ready,
		policy:       deadContainers(&n.cfg.Flags),
		remove:       n.syncer.remove,
		turns:        n.syncer.turns,
		kept:         n.syncer.kept,
		woken:        make(chan struct{}, 1),
		prunable:     map[types.UID]bool{},
		postponed:    map[types.UID]bool{},
	}
}

func (n *node) newImageGC() (*gc.Manager, error) {
	return gc.New(gc.Config{
		Images:          n.conn.Images,
		Containers:      n.conn.Runtime,
		Policy:          imageGC(&n.cfg.Kubelet),
		CollectInterval: n.cfg.ImageGCInterval,
		InUse:           n.imagesInUse,
		Remaining:       n.records.Tidy,
		Node:            nodeReference(n.cfg.Flags.NodeName),
		Event:           n.event,
		Logger:          n.cfg.Logger,
	})
}

func (n *node) newHandler() (*syncloop.DefaultHandler, error) {
	return syncloop.NewHandler(syncloop.HandlerConfig{
		Workers:     n.workers,
		Sources:     n.merger,
		Desired:     n.desired,
		Admit:       syncloop.AdmitterFunc(n.admit),
		OnReject:    n.reject,
		Phase:       n.phase,
		Prune:       n.janitor.prune,
		RuntimePods: n.orphans,
		FinalCleaners: []syncloop.Cleaner{
			{Name: "statuses", Clean: n.cleanStatuses},
			{Name: "janitor", Clean: func(context.Context, *syncloop.Cleanup) error { n.janitor.wake(); return nil }},
		},
		Logger: n.cfg.Logger,
	})
}

func (n *node) newLoop() (*syncloop.Loop, error) {
	sources := map[string]syncloop.EventSource{
		"inbox":    n.inbox,
		"deadline": n.handler.ActiveDeadlines(n.started),
	}
	if n.files != nil {
		sources[fileSource] = n.files
	}
	if n.web != nil {
		sources[httpSource] = n.web
	}
	return syncloop.New(syncloop.Config{
		Handler:         n.handler,
		Pods:            n.merger,
		Sources:         sources,
		Health:          n.runtimeHealth,
		StallLimit:      max(5*time.Minute, 2*n.cfg.Kubelet.SyncFrequency.Duration),
		ShutdownTimeout: n.cfg.ShutdownTimeout,
		Logger:          n.cfg.Logger,
	})
}
