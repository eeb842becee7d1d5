package podsyncer

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/status/writer"
	"github.com/podwright/podwright/syncloop"
)

// Syncer is a node agent for pods on a CRI runtime: a podworkers.PodSyncer with the workers and the
// sync loop that call it. Use New, then Run. Methods are safe for concurrent use.
type Syncer struct {
	cfg      Config
	log      *slog.Logger
	event    recorder
	pods     *pods.Manager
	garbage  *garbage.Collector
	observer *observer
	statuses *writer.Writer
	probes   *probe.Manager
	records  *checkpoint.Keeper
	stages   *stages.List
	ran      atomic.Bool
	write    func(context.Context) error // statuses.Run, replaced by tests

	inbox syncloop.Inbox
	// desired are the pods that a source names. The handler updates it.
	desired *syncloop.Desired
	workers *podworkers.Workers
	handler *syncloop.DefaultHandler
	loop    *syncloop.Loop

	podLocks *podLocks
	// ended are the pods that ended and kept their containers.
	ended perPod[bool]
	// explanations are the reasons that pods do not run all of their containers, from their last
	// sync.
	explanations perPod[*podwright.Explanation]

	adopter      *adopter // nil without Config.AdoptUnlabelled
	sinks        *podSinks
	releaser     *stages.Releaser
	leftoverScan leftoverScan
	pruner       *pruner
	collector    *collector
}

var (
	_ podworkers.PodSyncer    = (*Syncer)(nil)
	_ podworkers.OrphanSyncer = (*Syncer)(nil)
)

// New checks the configuration and returns a Syncer. It returns an error if a required field is
// unset or a value is invalid. No pod starts before Run.
func New(cfg Config) (*Syncer, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Syncer{
		cfg: cfg, log: cfg.Logger, event: recorder(cfg.Event), observer: newObserver(),
		stages: cfg.Stages, podLocks: newPodLocks(), desired: cmp.Or(cfg.Handler.Desired, new(syncloop.Desired)),
	}
	if cfg.AdoptUnlabelled {
		if err := s.adoptUnlabelled(); err != nil {
			return nil, fmt.Errorf("podsyncer: adoption of pods: %w", err)
		}
	}
	s.sinks, s.pruner, s.collector = newPodSinks(s), newPruner(s), newCollector(s)
	for _, build := range []func() error{s.buildPods, s.buildPLEG, s.buildStatuses, s.buildProbes, s.buildReleaser, s.buildWorkers, s.buildHandler, s.buildLoop} {
		if err := build(); err != nil {
			return nil, fmt.Errorf("podsyncer: %w", err)
		}
	}
	return s, nil
}

func (s *Syncer) buildPods() (err error) {
	if s.pods, err = pods.New(s.cfg.Pods); err != nil {
		return err
	}
	s.garbage, err = garbage.New(garbage.Config{Runtime: s.cfg.Pods.Runtime, Pods: s.pods, Logger: s.log})
	return err
}

func (s *Syncer) buildPLEG() (err error) {
	cfg := s.cfg.PLEG
	if cfg.Runtime == nil {
		cfg.Runtime, err = observe.New(observe.Config{Runtime: s.cfg.Pods.Runtime, RuntimeName: s.cfg.Pods.RuntimeName, Owner: s.cfg.Pods.Owner, Logger: s.log})
		if err != nil {
			return err
		}
	}
	if evented, ok := cfg.Runtime.(eventedRuntime); ok {
		cfg.Runtime = delayedHints{eventedRuntime: evented, delayHint: s.observer.delayHint}
	}
	cfg.OnEvent = both(func(e pleg.Event) { s.inbox.Emit(observedEvent(e)) }, cfg.OnEvent)
	s.observer.PLEG, err = pleg.New(cfg)
	return err
}

func (s *Syncer) buildStatuses() (err error) {
	s.records, err = checkpoint.NewKeeper(checkpoint.KeeperConfig{
		Store:    s.cfg.Checkpoint,
		Probes:   func(uid types.UID) probe.Results { return s.probes.Results(uid) },
		HeldBack: s.pods.HeldBack,
		Logger:   s.log,
	})
	if err != nil {
		return err
	}
	cfg := s.cfg.Statuses
	fields.Default(&cfg.Pod, s.desired.Get)
	fields.Default(&cfg.Mirror, s.mirror)
	fields.Default(&cfg.TranslateUID, s.desired.Translate)
	fields.Default(&cfg.MayStillRun, s.mayStillRun)
	cfg.Sinks = append(s.sinks.wrap(cfg.Sinks), writer.NamedSink{Name: checkpointSink, Sink: status.SinkFunc(s.records.Save)})
	if s.statuses, err = writer.New(cfg); err != nil {
		return err
	}
	s.write = s.statuses.Run
	return nil
}

func (s *Syncer) buildProbes() (err error) {
	cfg := s.cfg.Probes
	cfg.Status = s.statuses.Get
	cfg.OnChange = both(s.probed, cfg.OnChange)
	s.probes, err = probe.New(cfg)
	return err
}

func (s *Syncer) buildReleaser() (err error) {
	s.releaser, err = stages.NewReleaser(stages.ReleaserConfig{
		List:            s.stages,
		Try:             s.tryLock,
		Gone:            s.releasable,
		Others:          s.leftInRuntime,
		Release:         func(ctx context.Context, uid types.UID) error { return s.remove(ctx, uid, time.Now()) },
		Rest:            pauseAfterFailure,
		ShutdownTimeout: s.cfg.ShutdownTimeout,
		Logger:          s.log,
	})
	return err
}

// PLEG returns the observer of the runtime.
func (s *Syncer) PLEG() *pleg.PLEG { return s.observer.PLEG }

// Probes returns the manager of probes.
func (s *Syncer) Probes() *probe.Manager { return s.probes }

// Statuses returns the writer, which has the newest status of each pod.
func (s *Syncer) Statuses() *writer.Writer { return s.statuses }

// Workers returns the workers of pods.
func (s *Syncer) Workers() *podworkers.Workers { return s.workers }

// Handler returns the handler of desired pods.
func (s *Syncer) Handler() *syncloop.DefaultHandler { return s.handler }

// Loop returns the sync loop.
func (s *Syncer) Loop() *syncloop.Loop { return s.loop }

// Healthy returns the reason that the Syncer cannot observe pods, or nil. It does not block.
func (s *Syncer) Healthy() error { return s.observer.Healthy() }

// Explain returns the reason that a pod does not run all of its containers, from its last sync, or
// nil if all run: Why if they wait for each other, Err if steps failed. For its worker, stages and
// sinks use podworkers.Workers.State, stages.List.Explain and writer.Writer.Explain.
func (s *Syncer) Explain(uid types.UID) []podwright.Explanation {
	if e := s.explanations.get(uid); e != nil {
		return []podwright.Explanation{*e}
	}
	return nil
}

// explanation returns nil if all containers run.
func explanation(r pods.Result) *podwright.Explanation {
	e := &podwright.Explanation{Part: "containers", Why: r.Explanation(), Err: r.Err(), NextTry: r.NotBefore()}
	if e.Why == "" && e.Err == nil {
		return nil
	}
	return e
}

// Remembered returns the pods with state in memory, apart from statuses. Housekeeping drops the
// state of removed pods.
func (s *Syncer) Remembered() []types.UID {
	seen := map[types.UID]bool{}
	for _, uids := range [][]types.UID{s.podLocks.uids(), s.ended.uids(), s.explanations.uids(), s.observer.uids(), s.records.Pods()} {
		for _, uid := range uids {
			seen[uid] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
