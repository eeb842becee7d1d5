package agent

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/podsyncer"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/allocation"
	"github.com/podwright/podwright/syncloop/eviction"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// lifecycle lists and ends pods for the parts below the syncer. They call it only while the node
// runs.
type lifecycle struct {
	cfg        *Config
	recorder   recorder
	desired    syncloop.Desired
	allocation *allocation.Manager
	syncer     *podsyncer.Syncer
}

// current returns the pods that a source names or that still have a worker, with their allocations.
func (l *lifecycle) current() map[types.UID]*v1.Pod {
	out := map[types.UID]*v1.Pod{}
	for _, s := range l.syncer.Workers().Pods() {
		if s.Pod != nil && !s.ShouldBeFinished() {
			out[s.UID] = s.Pod
		}
	}
	for _, pod := range l.desired.Pods() {
		out[pod.UID] = l.allocation.Allocated(pod)
	}
	return out
}

func (l *lifecycle) list() []*v1.Pod { return slices.Collect(maps.Values(l.current())) }

func (l *lifecycle) active() []*v1.Pod { return l.syncer.Handler().ActivePods() }

func (l *lifecycle) finished(pod *v1.Pod) bool {
	return l.syncer.Workers().State(pod.UID).ShouldBeFinished()
}

func (l *lifecycle) evict(ctx context.Context, v eviction.Victim) error {
	return l.syncer.Workers().Kill(ctx, v.Pod, podworkers.KillOptions{Evict: true, Status: v.Apply, GracePeriodSeconds: &v.GraceSeconds})
}

func (l *lifecycle) shutDown(ctx context.Context, pod *v1.Pod, seconds int64) error {
	return l.syncer.Workers().Kill(ctx, pod, podworkers.KillOptions{
		GracePeriodSeconds: &seconds,
		Status:             func(s *v1.PodStatus) { shutdown.Terminated(s, pod.Generation, time.Now()) },
	})
}

func (l *lifecycle) newFit(allocatable func() v1.ResourceList) (*admission.Fit, error) {
	return admission.New(admission.Config{Allocatable: allocatable, Leaving: l.leaving, Preempt: l.preempt, Wanted: l.wanted, Logger: l.cfg.Logger})
}

// wanted reports whether a source names a pod that has not failed. Admission may have rejected a
// pod that it delayed before.
func (l *lifecycle) wanted(uid types.UID) bool {
	s := l.syncer.Statuses().Get(uid)
	return l.desired.Get(uid) != nil && (s == nil || !podfacts.IsTerminalPhase(s.Phase))
}

func (l *lifecycle) leaving(pod *v1.Pod) bool {
	return pod.DeletionTimestamp != nil || l.desired.Get(pod.UID) == nil || l.syncer.Workers().State(pod.UID).TerminationRequested()
}

const (
	preempting        = "Preempting"
	preemptedMessage  = "Preempted in order to admit critical pod"
	preemptionMessage = "Pod was preempted by Kubelet to accommodate a critical pod."
)

// preempt ends pods in favour of a critical one, with their own grace periods.
func (l *lifecycle) preempt(pod *v1.Pod, victims []*v1.Pod, missing []admission.Shortage) {
	now := time.Now()
	for _, victim := range victims {
		ref := podfacts.Reference(victim)
		l.recorder.event(ref, v1.EventTypeWarning, preempting, preemptedMessage)
		err := l.syncer.Workers().UpdatePod(podworkers.Update{Type: podworkers.UpdateKill, Pod: victim, Kill: &podworkers.KillOptions{Evict: true, Status: func(s *v1.PodStatus) {
			*s = status.WithDisruption(victim, *s, preemptionMessage, now)
			s.Phase, s.Reason, s.Message = v1.PodFailed, preempting, preemptedMessage
		}}})
		if err != nil {
			l.cfg.Logger.Error("a pod cannot be ended for a critical one", "pod", victim.Namespace+"/"+victim.Name, "podUID", victim.UID, "for", pod.UID, "err", err)
			continue
		}
		l.cfg.Metrics.Pods.Preempted(string(missing[0].Name))
	}
}

// order sorts pods that are admitted at the same time, such as after a restart: previously admitted
// pods come first, then critical pods, then by priority and age.
func (l *lifecycle) order(list []*v1.Pod) error {
	err := syncloop.ByPriority(list)
	rank := func(pod *v1.Pod) int {
		r := 0
		if !l.allocation.Granted(pod.UID) {
			r = 2
		}
		if !podfacts.IsCritical(pod) {
			r++
		}
		return r
	}
	slices.SortStableFunc(list, func(a, b *v1.Pod) int { return cmp.Compare(rank(a), rank(b)) })
	return err
}
