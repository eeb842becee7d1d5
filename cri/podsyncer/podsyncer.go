package podsyncer

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/status/writer"
	"github.com/podwright/podwright/syncloop"
)

// Syncer is a podworkers.PodSyncer for pods on a CRI runtime. Use New, then NewWorkers
// and NewHandler, then Run. Methods are safe for concurrent use.
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
	write    func(context.Context) error // statuses.Run

	// inbox takes what the loop is to be told, also before there is a loop.
	inbox syncloop.Inbox
	// desired are the pods that a source names. The handler of the loop fills it.
	desired syncloop.Desired
	// worker is the state of a pod's worker, workers are those of all, deadlines are those of desired pods.
	worker    func(types.UID) podworkers.PodState
	workers   func() []podworkers.PodState
	deadlines syncloop.EventSource

	// turns lets one at a time work on a pod.
	turns *turns
	// ended are the pods that have ended and kept what they left.
	ended perPod[bool]
	// explanations say why pods do not run all of their containers, as the last sync
	// found it.
	explanations perPod[string]

	sinks     *podSinks
	releaser  *stages.Releaser
	lookout   lookout
	pruner    *pruner
	collector *collector
}

var (
	_ podworkers.PodSyncer    = (*Syncer)(nil)
	_ podworkers.OrphanSyncer = (*Syncer)(nil)
)

// New checks the configuration and returns a Syncer whose calls wait for Run.
func New(cfg Config) (*Syncer, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Syncer{
		cfg: cfg, log: cfg.Logger, event: cfg.Event, observer: newObserver(),
		stages: cfg.Stages, turns: newTurns(), worker: unknownWorker, workers: noWorkers, deadlines: syncloop.EventSourceFunc(noEvents),
	}
	s.sinks, s.pruner, s.collector = newPodSinks(s), newPruner(s), newCollector(s)
	for _, build := range []func() error{s.buildPods, s.buildPLEG, s.buildStatuses, s.buildProbes, s.buildReleaser} {
		if err := build(); err != nil {
			return nil, fmt.Errorf("podsyncer: %w", err)
		}
	}
	return s, nil
}

// unknownWorker is the state of a worker of which nobody tells.
func unknownWorker(uid types.UID) podworkers.PodState { return podworkers.PodState{UID: uid} }

func noWorkers() []podworkers.PodState { return nil }

func noEvents(ctx context.Context, _ func(syncloop.Event)) error {
	<-ctx.Done()
	return nil
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
		cfg.Runtime, err = observe.New(observe.Config{Runtime: s.cfg.Pods.Runtime, RuntimeName: s.cfg.Pods.RuntimeName, Logger: s.log})
		if err != nil {
			return err
		}
	}
	if evented, ok := cfg.Runtime.(eventedRuntime); ok {
		cfg.Runtime = withheld{eventedRuntime: evented, hold: s.observer.hold}
	}
	told := cfg.OnEvent
	cfg.OnEvent = func(e pleg.Event) {
		s.inbox.Emit(observedEvent(e))
		if told != nil {
			told(e)
		}
	}
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
	if cfg.Pod == nil {
		cfg.Pod = s.desired.Get
	}
	if cfg.Mirror == nil {
		cfg.Mirror = s.mirror
	}
	if cfg.TranslateUID == nil {
		cfg.TranslateUID = s.desired.Translate
	}
	if cfg.MayStillRun == nil {
		cfg.MayStillRun = s.mayStillRun
	}
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
	told := cfg.Changed
	cfg.Changed = func(c probe.Change) {
		s.probed(c)
		if told != nil {
			told(c)
		}
	}
	s.probes, err = probe.New(cfg)
	return err
}

func (s *Syncer) buildReleaser() (err error) {
	s.releaser, err = stages.NewReleaser(stages.ReleaserConfig{
		List:            s.stages,
		Try:             s.tryTurn,
		Gone:            s.releasable,
		Others:          s.leftInRuntime,
		Release:         func(ctx context.Context, uid types.UID) error { return s.remove(ctx, uid, time.Now()) },
		Rest:            pauseAfterFailure,
		ShutdownTimeout: s.cfg.ShutdownTimeout,
		Logger:          s.log,
	})
	return err
}

// Pods runs the Syncer's pods on the runtime.
func (s *Syncer) Pods() *pods.Manager { return s.pods }

// PLEG observes the runtime for the Syncer.
func (s *Syncer) PLEG() *pleg.PLEG { return s.observer.PLEG }

// Probes probes the containers of the Syncer's pods.
func (s *Syncer) Probes() *probe.Manager { return s.probes }

// Statuses has the newest status of each pod.
func (s *Syncer) Statuses() *writer.Writer { return s.statuses }

// Desired are the pods that a source names. The handler of NewHandler fills it.
func (s *Syncer) Desired() *syncloop.Desired { return &s.desired }

// Healthy is why pods cannot be handled now, nil when they can: a syncloop.Config's
// Health. It answers from memory.
func (s *Syncer) Healthy() error { return s.observer.Healthy() }

// Explain says why a pod does not run all of its containers, as its last sync found
// it; "" when there is nothing to explain. What its worker does now, and what the
// stages have of it, say podworkers.Workers.State and stages.List.Explain.
func (s *Syncer) Explain(uid types.UID) string { return s.explanations.get(uid) }

// Remembered are the pods of which the Syncer has anything in memory, apart from their
// statuses. Housekeeping forgets those that are gone.
func (s *Syncer) Remembered() []types.UID {
	seen := map[types.UID]bool{}
	for _, uids := range [][]types.UID{s.turns.uids(), s.ended.uids(), s.explanations.uids(), s.observer.uids(), s.records.Pods()} {
		for _, uid := range uids {
			seen[uid] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
