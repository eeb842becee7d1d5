package podsyncer

import (
	"cmp"
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

// both returns a callback that calls both arguments in order. then may be nil.
func both[T any](first, then func(T)) func(T) {
	if then == nil {
		return first
	}
	return func(v T) {
		first(v)
		then(v)
	}
}

func (s *Syncer) buildWorkers() (err error) {
	cfg := s.cfg.Workers
	cfg.Syncer = s
	cfg.OnDue = func(uid types.UID) { s.inbox.Emit(syncloop.Event{Kind: syncloop.SyncDue, UID: uid}) }
	cfg.TerminalPodStopped = s.stopped
	cfg.OnTransition = both(s.transitioned, cfg.OnTransition)
	s.workers, err = podworkers.New(cfg)
	return err
}

func (s *Syncer) buildHandler() (err error) {
	cfg := s.cfg.Handler
	cfg.Workers, cfg.Desired, cfg.OnReject, cfg.Phase = s.workers, s.desired, s.reject, s.phase
	cfg.Prune = func(_ context.Context, uid types.UID, all bool) { s.pruner.add(uid, all) }
	cfg.RuntimePods = func(context.Context) ([]podworkers.RuntimePod, error) { return s.runtimePods() }
	cfg.FinalCleaners = append(slices.Clone(cfg.FinalCleaners), syncloop.Cleaner{Name: "podsyncer", Clean: s.clean})
	s.handler, err = syncloop.NewHandler(cfg)
	return err
}

func (s *Syncer) buildLoop() (err error) {
	cfg := s.cfg.Loop
	cfg.Handler = s.handler
	cfg.Health = s.Healthy
	if first := s.cfg.Loop.Health; first != nil {
		cfg.Health = func() error { return cmp.Or(first(), s.Healthy()) }
	}
	cfg.Sources = map[string]syncloop.EventSource{}
	maps.Copy(cfg.Sources, s.cfg.Loop.Sources)
	cfg.Sources["podsyncer"] = syncloop.EventSourceFunc(s.events)
	s.loop, err = syncloop.New(cfg)
	return err
}

// events emits pods with an event of the runtime, a changed probe result, a due retry, or an
// expired active deadline.
func (s *Syncer) events(ctx context.Context, emit func(syncloop.Event)) error {
	return run.All(ctx,
		func(ctx context.Context) error { return s.inbox.Run(ctx, emit) },
		func(ctx context.Context) error {
			return run.Guard("active deadlines", func() error { return s.handler.ActiveDeadlines(s.started).Run(ctx, emit) })
		},
	)
}

// clean drops the state of pods without source and worker, and wakes the parts of Run that release
// leftovers. It does not block.
func (s *Syncer) clean(context.Context, *syncloop.Cleanup) error {
	s.statuses.Prune(s.wanted)
	s.probes.Prune(s.wanted)
	s.records.Prune(s.wanted)
	s.observer.prune(s.wanted)
	s.sinks.prune()
	if s.leftoverScan.isDue(s, time.Now()) {
		s.releaser.Wake()
	}
	s.collector.wake()
	return nil
}

// runtimePods returns the running pods without source and worker. It reads memory only, because the
// sync loop must not wait; a stop observes its pod first.
func (s *Syncer) runtimePods() ([]podworkers.RuntimePod, error) {
	if err := s.observer.Healthy(); err != nil {
		return nil, err
	}
	var out []podworkers.RuntimePod
	for _, p := range s.observer.Pods() {
		if !p.Stopped() && !s.wanted(p.UID) {
			out = append(out, podworkers.RuntimePod{UID: p.UID, Name: p.Name, Namespace: p.Namespace, Source: p.Source})
		}
	}
	return out, nil
}

// transitioned handles a transition of a worker. After the end of a pod, housekeeping forgets it and pods
// that wait for its UID start.
func (s *Syncer) transitioned(t podworkers.Transition) {
	if t.To == podworkers.StateFinished {
		s.housekeep()
	}
	s.log.Debug("pod worker", "pod", t.Namespace+"/"+t.Name, "podUID", t.UID, "from", t.From, "to", t.To)
}

func (s *Syncer) housekeep() { s.inbox.Emit(syncloop.Event{Kind: syncloop.Housekeeping}) }

// stopped reports from memory whether a pod was observed and has stopped.
func (s *Syncer) stopped(uid types.UID) bool {
	observed, err := s.observer.Get(uid)
	return err == nil && !observed.ObservedAt.IsZero() && observed.Stopped()
}

// mayStillRun reports from memory whether containers of a pod may run. An earlier agent may have
// started a pod without a worker, such as a refused one.
func (s *Syncer) mayStillRun(uid types.UID) bool {
	if state := s.workers.State(uid); state.State != podworkers.StateUnknown {
		return state.CouldHaveRunningContainers()
	}
	return !s.stopped(uid)
}

func (s *Syncer) started(pod *v1.Pod) *metav1.Time {
	if now := s.statuses.Get(pod.UID); now != nil {
		return now.StartTime
	}
	return nil
}

// phase returns the newest phase of a pod: the computed one, if available. A status without a
// worker belongs to an earlier pod with the UID.
func (s *Syncer) phase(pod *v1.Pod) v1.PodPhase {
	if now := s.statuses.Get(pod.UID); now != nil && s.workers.State(pod.UID).State != podworkers.StateUnknown {
		return now.Phase
	}
	return pod.Status.Phase
}

// reject records the failure of a pod that never ran.
func (s *Syncer) reject(pod *v1.Pod, why syncloop.Rejection) {
	s.sinks.put(pod)
	s.refused(pod, s.statuses.Set(pod, status.Reject(pod, why.Reason, why.Message)))
	s.event.warn(pod, why.Reason, errors.New(why.Message))
}
