package agent

import (
	"cmp"
	"errors"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright/cri/pods"
	kubelet "github.com/podwright/podwright/examples/kubelet/node"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status"
	nodestatus "github.com/podwright/podwright/status/node"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/eviction"
)

func (n *node) newFit() (*admission.Fit, error) {
	return admission.New(admission.Config{
		Allocatable: n.allocatable,
		Leaving:     n.leaving,
		Preempt:     n.preempt,
		Wanted:      n.stillToRun,
		Logger:      n.cfg.Logger,
	})
}

// newAdmitter asks about each new pod, in this order; the first one that refuses says why.
// A pod that is not critical hears first that there is no room; for a critical one, which
// nothing else keeps out, room is made.
func (n *node) newAdmitter() syncloop.Admitter {
	return syncloop.AdmitAll(
		among(eviction.Admitter(func() eviction.Pressure { return n.evictor.Pressure() }), func(pod *v1.Pod) bool {
			return !n.allocation.Granted(pod.UID) // one that was admitted before a restart is for the evictor
		}),
		syncloop.AdmitterFunc(n.sysctls),
		admission.System(runtime.GOOS),
		syncloop.AdmitterFunc(func(pod *v1.Pod, _ []*v1.Pod) error { return lacking(pod, n.health.Health().Features) }),
		syncloop.AdmitterFunc(n.supported),
		among(n.fit, func(pod *v1.Pod) bool { return !podfacts.IsCritical(pod) }),
		syncloop.AdmitterFunc(n.wrongNode),
		syncloop.FreeHostPorts(&n.desired),
		admission.Tolerating(n.thisNode),
		admission.AppArmor(n.cfg.AppArmor),
		syncloop.AdmitterFunc(n.admitNow),
		among(n.fit, podfacts.IsCritical),
	)
}

// stillToRun tells whether a pod that was held back is wanted, and has not failed meanwhile: it
// may be refused for something else at the next look.
func (n *node) stillToRun(uid types.UID) bool {
	s := n.statuses.Get(uid)
	return n.syncer.Desired().Get(uid) != nil && (s == nil || !podfacts.IsTerminalPhase(s.Phase))
}

// among asks about some pods.
func among(next syncloop.Admitter, which func(*v1.Pod) bool) syncloop.Admitter {
	return syncloop.AdmitterFunc(func(pod *v1.Pod, active []*v1.Pod) error {
		if !which(pod) {
			return nil
		}
		return next.Admit(pod, active)
	})
}

// supported refuses what nobody here can do.
func (n *node) supported(pod *v1.Pod, _ []*v1.Pod) error {
	if errs := n.notSupported(pod); len(errs) > 0 {
		return syncloop.Reject("UnsupportedPodSpec", "%v", errors.Join(errs...))
	}
	return nil
}

// kernelVersion is that of the machine, until it boots again.
var kernelVersion = sync.OnceValue(func() string { return kubelet.ReadVersions(os.DirFS("/")).Kernel })

func (n *node) sysctls(pod *v1.Pod, _ []*v1.Pod) error {
	if errs := pods.ForbiddenSysctls(pod, kernelVersion(), n.cfg.Kubelet.AllowedUnsafeSysctls...); len(errs) > 0 {
		return syncloop.Reject("SysctlForbidden", "%v", errors.Join(errs...))
	}
	return nil
}

// leaving tells of an active pod that it is about to stop.
func (n *node) leaving(pod *v1.Pod) bool {
	return pod.DeletionTimestamp != nil || n.syncer.Desired().Get(pod.UID) == nil || n.workers.State(pod.UID).TerminationRequested()
}

// What is said of a pod that was ended for a critical one.
const (
	preempting        = "Preempting"
	preemptedMessage  = "Preempted in order to admit critical pod"
	preemptionMessage = "Pod was preempted by Kubelet to accommodate a critical pod."
)

// preempt ends pods for a critical one, with the grace periods that they have.
func (n *node) preempt(pod *v1.Pod, victims []*v1.Pod, missing []admission.Shortage) {
	now := time.Now()
	for _, victim := range victims {
		ref := v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: victim.Namespace, Name: victim.Name, UID: victim.UID, ResourceVersion: victim.ResourceVersion}
		n.event(ref, v1.EventTypeWarning, preempting, preemptedMessage)
		err := n.workers.UpdatePod(podworkers.Update{Type: podworkers.UpdateKill, Pod: victim, Kill: &podworkers.KillOptions{Evict: true, Status: func(s *v1.PodStatus) {
			*s = status.WithDisruption(victim, *s, preemptionMessage, now)
			s.Phase, s.Reason, s.Message = v1.PodFailed, preempting, preemptedMessage
		}}})
		if err != nil {
			n.cfg.Logger.Error("a pod cannot be ended for a critical one", "pod", victim.Namespace+"/"+victim.Name, "uid", victim.UID, "for", pod.UID, "err", err)
			continue
		}
		n.cfg.Metrics.Pods.Preempted(string(missing[0].Name))
	}
}

// order is that in which pods are admitted which come at the same time, as all of a source
// do after a restart: those that were admitted before, so that none of them loses its place;
// of these and of the others critical ones first, then by priority and by age.
func (g *ground) order(list []*v1.Pod) error {
	err := syncloop.ByPriority(list)
	rank := func(pod *v1.Pod) int {
		r := 0
		if !g.allocation.Granted(pod.UID) {
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

// ownStatus is what can be told here of what the machine has for pods.
func ownStatus(k *kubeletv1beta1.KubeletConfiguration, machine *nodestatus.Machine, reserved kubelet.Reservations) *v1.NodeStatus {
	return nodestatus.Compute(nil, nodestatus.Facts{
		Machine: machine, Reserved: reserved.Of(machine), NoLocalStorage: !*k.LocalStorageCapacityIsolation,
		MaxPods: int64(k.MaxPods), PodsPerCore: int64(k.PodsPerCore),
	}, nodestatus.SetMachine, nodestatus.SetAllocatable)
}
