package podsyncer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
)

// NewWorkers returns workers that call the Syncer. It fills in what the Syncer knows
// and cfg does not say: Syncer, Resync, TerminalPodStopped, Span, Event, Logger and
// ShutdownTimeout. cfg.OnTransition is told after the Syncer. A Syncer of your own in
// cfg passes the calls on.
func (s *Syncer) NewWorkers(cfg podworkers.Config) (*podworkers.Workers, error) {
	if cfg.Syncer == nil {
		cfg.Syncer = s
	}
	if cfg.Resync == nil {
		cfg.Resync = func(uid types.UID) { s.inbox.Emit(syncloop.Event{Kind: syncloop.SyncDue, UID: uid}) }
	}
	if cfg.TerminalPodStopped == nil {
		cfg.TerminalPodStopped = s.stopped
	}
	told := cfg.OnTransition
	cfg.OnTransition = func(t podworkers.Transition) {
		s.moved(t)
		if told != nil {
			told(t)
		}
	}
	if cfg.Span == nil {
		cfg.Span = s.cfg.Span
	}
	if cfg.Event == nil {
		cfg.Event = s.cfg.Event
	}
	if cfg.Logger == nil {
		cfg.Logger = s.log
	}
	if cfg.ShutdownTimeout == 0 {
		cfg.ShutdownTimeout = s.cfg.ShutdownTimeout
	}
	workers, err := podworkers.New(cfg)
	if err != nil {
		return nil, err
	}
	s.worker, s.workers = workers.State, workers.Pods
	return workers, nil
}

// NewHandler returns a syncloop.Handler for the workers. It fills in what the Syncer
// knows and cfg does not say: Sources, OnReject, Phase, Prune, RuntimePods and Logger.
// Desired is the Syncer's, and its Cleaner is the last one of the FinalCleaners.
func (s *Syncer) NewHandler(cfg syncloop.HandlerConfig) (*syncloop.DefaultHandler, error) {
	if cfg.Sources == nil {
		cfg.Sources = s.cfg.Sources
	}
	cfg.Desired = &s.desired
	if cfg.OnReject == nil {
		cfg.OnReject = s.reject
	}
	if cfg.Phase == nil {
		cfg.Phase = s.phase
	}
	if cfg.Prune == nil {
		cfg.Prune = func(_ context.Context, uid types.UID, all bool) { s.pruner.add(uid, all) }
	}
	if cfg.RuntimePods == nil {
		cfg.RuntimePods = func(context.Context) ([]podworkers.RuntimePod, error) { return s.runtimePods() }
	}
	if cfg.Logger == nil {
		cfg.Logger = s.log
	}
	cfg.FinalCleaners = append(slices.Clone(cfg.FinalCleaners), s.Cleaner())
	handler, err := syncloop.NewHandler(cfg)
	if err != nil {
		return nil, err
	}
	s.cfg.Sources, s.worker, s.deadlines = cfg.Sources, cfg.Workers.State, handler.ActiveDeadlines(s.started)
	return handler, nil
}

// NewLoop returns a syncloop.Loop. It fills in what the Syncer knows and cfg does not
// say: Health, Logger and ShutdownTimeout; and it adds the Syncer's Events to the
// Sources, as "podsyncer".
func (s *Syncer) NewLoop(cfg syncloop.Config) (*syncloop.Loop, error) {
	if cfg.Health == nil {
		cfg.Health = s.Healthy
	}
	if cfg.Logger == nil {
		cfg.Logger = s.log
	}
	if cfg.ShutdownTimeout == 0 {
		cfg.ShutdownTimeout = s.cfg.ShutdownTimeout
	}
	cfg.Sources = maps.Clone(cfg.Sources)
	if cfg.Sources == nil {
		cfg.Sources = map[string]syncloop.EventSource{}
	}
	cfg.Sources["podsyncer"] = s.Events()
	return syncloop.New(cfg)
}

// Events is what becomes dirty by what the Syncer observes: pods in which something
// happened or a probe has another result, pods that are due, and pods whose active
// deadline has passed. NewLoop adds it.
func (s *Syncer) Events() syncloop.EventSource {
	return syncloop.EventSourceFunc(func(ctx context.Context, emit func(syncloop.Event)) error {
		return run.All(ctx,
			func(ctx context.Context) error { return s.inbox.Run(ctx, emit) },
			func(ctx context.Context) error {
				return run.Guard("active deadlines", func() error { return s.deadlines.Run(ctx, emit) })
			},
		)
	})
}

// Cleaner forgets pods that nobody knows any more, and has Run release what they have
// left. It is a step of housekeeping that does no work itself, and comes after those
// that make pods start or stop. NewHandler adds it.
func (s *Syncer) Cleaner() syncloop.Cleaner {
	return syncloop.Cleaner{Name: "podsyncer", Clean: func(context.Context, *syncloop.Cleanup) error {
		s.statuses.Prune(s.wanted)
		s.probes.Prune(s.wanted)
		s.records.Prune(s.wanted)
		s.observer.prune(s.wanted)
		s.sinks.prune()
		if s.lookout.isDue(s, time.Now()) {
			s.releaser.Wake()
		}
		s.collector.wake()
		return nil
	}}
}

// runtimePods are the pods that run and that no source and no worker knows. They are
// told from memory, since the sync loop waits for nobody: whoever stops one looks at
// it first.
func (s *Syncer) runtimePods() ([]podworkers.RuntimePod, error) {
	if err := s.observer.Healthy(); err != nil {
		return nil, err
	}
	var out []podworkers.RuntimePod
	for _, p := range s.observer.Pods() {
		if !p.Stopped() && !s.wanted(p.UID) {
			out = append(out, podworkers.RuntimePod{UID: p.UID, Name: p.Name, Namespace: p.Namespace})
		}
	}
	return out, nil
}

// moved takes in where a pod's life turns. When one ends, housekeeping forgets it, and
// what waits for its UID starts.
func (s *Syncer) moved(t podworkers.Transition) {
	if t.To == podworkers.StateFinished {
		s.housekeep()
	}
	s.log.Debug("pod worker", "pod", t.Namespace+"/"+t.Name, "uid", t.UID, "from", t.From, "to", t.To)
}

// housekeep has housekeeping done soon.
func (s *Syncer) housekeep() { s.inbox.Emit(syncloop.Event{Kind: syncloop.Housekeeping}) }

// stopped tells from memory whether nothing of a pod runs.
func (s *Syncer) stopped(uid types.UID) bool {
	observed, err := s.observer.Get(uid)
	return err == nil && !observed.ObservedAt.IsZero() && observed.Stopped()
}

// mayStillRun tells from memory whether containers of a pod may run. One without a worker,
// such as one that was refused, may have been started by an earlier agent.
func (s *Syncer) mayStillRun(uid types.UID) bool {
	if state := s.worker(uid); state.State != podworkers.StateUnknown {
		return state.CouldHaveRunningContainers()
	}
	return !s.stopped(uid)
}

// started returns when a pod began, nil if it has not.
func (s *Syncer) started(pod *v1.Pod) *metav1.Time {
	if now := s.statuses.Get(pod.UID); now != nil {
		return now.StartTime
	}
	return nil
}

// phase is the newest phase of a pod: the computed one, if there is one. A status
// without a worker is that of an earlier pod with the UID.
func (s *Syncer) phase(pod *v1.Pod) v1.PodPhase {
	if now := s.statuses.Get(pod.UID); now != nil && s.worker(pod.UID).State != podworkers.StateUnknown {
		return now.Phase
	}
	return pod.Status.Phase
}

// reject records that a pod has failed without ever having run.
func (s *Syncer) reject(pod *v1.Pod, why syncloop.Rejection) {
	s.sinks.put(pod)
	s.refused(pod, s.statuses.Set(pod, status.Reject(pod, why.Reason, why.Message)))
	s.event.warn(pod, why.Reason, errors.New(why.Message))
}
