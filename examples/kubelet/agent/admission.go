package agent

import (
	"errors"
	"os"
	"runtime"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods/request"
	kubelet "github.com/podwright/podwright/examples/kubelet/node"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/eviction"
)

// newAdmitter builds the admission of new pods. The first rejection counts. The resources of a pod
// that is not critical are checked before all other conditions. A critical pod preempts others, so
// its resources are checked last.
func (n *node) newAdmitter() syncloop.Admitter {
	in, cfg := n.in, n.in.cfg
	admitter := syncloop.AdmitAll(
		onlyFor(eviction.Admitter(n.evictor.Pressure), func(pod *v1.Pod) bool {
			// The evictor decides about pods that were admitted before a restart.
			return !n.allocation.Granted(pod.UID)
		}),
		rejectIfAny("SysctlForbidden", func(pod *v1.Pod) []error {
			return request.ForbiddenSysctls(pod, kernelVersion(), cfg.Kubelet.AllowedUnsafeSysctls...)
		}),
		admission.System(runtime.GOOS),
		syncloop.AdmitterFunc(func(pod *v1.Pod, _ []*v1.Pod) error { return lacking(pod, n.health.Health().Features) }),
		rejectIfAny("UnsupportedPodSpec", cfg.notSupported),
		onlyFor(n.fit, func(pod *v1.Pod) bool { return !podfacts.IsCritical(pod) }),
		syncloop.AdmitterFunc(func(pod *v1.Pod, _ []*v1.Pod) error { return in.cluster.rightNode(pod, in.machine.node) }),
		syncloop.FreeHostPorts(&n.lifecycle.desired),
		admission.Tolerating(in.thisNode),
		admission.AppArmor(cfg.AppArmor),
		syncloop.AdmitterFunc(n.shutdown.admit),
		onlyFor(n.fit, podfacts.IsCritical),
	)
	if in.cluster == nil {
		return n.fit.AwaitRoom(admitter)
	}
	return admitter
}

func rejectIfAny(reason string, check func(*v1.Pod) []error) syncloop.Admitter {
	return syncloop.AdmitterFunc(func(pod *v1.Pod, _ []*v1.Pod) error {
		if errs := check(pod); len(errs) > 0 {
			return syncloop.Reject(reason, "%v", errors.Join(errs...))
		}
		return nil
	})
}

// onlyFor applies next to the pods that which selects, and admits all others.
func onlyFor(next syncloop.Admitter, which func(*v1.Pod) bool) syncloop.Admitter {
	return syncloop.AdmitterFunc(func(pod *v1.Pod, active []*v1.Pod) error {
		if !which(pod) {
			return nil
		}
		return next.Admit(pod, active)
	})
}

var kernelVersion = sync.OnceValue(func() string { return kubelet.ReadVersions(os.DirFS("/")).Kernel })
