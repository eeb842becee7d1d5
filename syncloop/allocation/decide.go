package allocation

import (
	"cmp"
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/syncloop"
)

// Waiting is a resize that was not granted.
type Waiting struct {
	// Generation is the generation of the pod that requests the resize.
	Generation int64
	// Reason is v1.PodReasonDeferred or v1.PodReasonInfeasible.
	Reason string
	// Message is the cause in words.
	Message string
	// Since is the time of the first refusal with this reason.
	Since time.Time
}

// Infeasible is the reason why a resize can never be granted. It is an error.
type Infeasible struct {
	// Detail is one word for metrics, such as "guaranteed_pod_cpu_manager_static_policy".
	Detail  string
	Message string
}

func (e *Infeasible) Error() string { return e.Message }

// detailInvalid is the Detail of a resize to negative or overflowing amounts.
const detailInvalid = "invalid_amount"

// Fit returns nil if a pod fits beside others, which have their allocated resources. It returns an
// *Infeasible if the pod can never fit, and any other error if it does not fit now.
type Fit func(pod *v1.Pod, others []*v1.Pod) error

// Input is the input of Decide, which changes none of it.
type Input struct {
	// Pods are the active pods in their desired version.
	Pods []*v1.Pod
	// Granted returns the allocation of a pod, or false if the pod was not admitted yet.
	Granted func(uid types.UID) (Resources, bool)
	// Waiting are the waiting resizes by pod.
	Waiting map[types.UID]Waiting
	// Rules exclude infeasible resizes.
	Rules Rules
	// Fit decides each resize that the rules allow.
	Fit Fit
	// Now is the time of the decision.
	Now time.Time
}

// Verdict is the decision about one requested resize.
type Verdict struct {
	// Pod is the desired version, which becomes the allocation if Granted is true.
	Pod     *v1.Pod
	Granted bool
	// Waiting is the reason for not granting the resize.
	Waiting Waiting
	// Detail is Infeasible.Detail.
	Detail string
	// IsNew is true if reason or generation differ from the previous verdict. A different message
	// alone does not count. A new verdict justifies an event.
	IsNew bool
	// WasDeferred is true if the previous verdict was Deferred.
	WasDeferred bool
}

// Decide decides all resizes in their order. Static pods are always granted their manifest. Pods
// that are being deleted keep their allocation.
func Decide(in Input) []Verdict {
	r := round{in: in, allocated: make([]*v1.Pod, len(in.Pods))}
	var resizes []resize
	for i, pod := range in.Pods {
		r.allocated[i] = pod
		has, ok := in.Granted(pod.UID)
		if !ok || has.Describes(pod) {
			continue
		}
		if podfacts.IsStatic(pod) {
			r.verdicts = append(r.verdicts, Verdict{Pod: pod, Granted: true})
			continue
		}
		r.allocated[i] = has.Apply(pod)
		if pod.DeletionTimestamp == nil {
			resizes = append(resizes, resize{index: i, pod: pod, isIncrease: isIncrease(r.allocated[i], pod), waiting: in.Waiting[pod.UID]})
		}
	}
	slices.SortStableFunc(resizes, compare)
	for _, z := range resizes {
		r.verdicts = append(r.verdicts, r.decide(z))
	}
	return r.verdicts
}

type resize struct {
	index      int // in Input.Pods
	pod        *v1.Pod
	isIncrease bool
	waiting    Waiting
}

func compare(a, b resize) int {
	return cmp.Or(
		cmp.Compare(rank(a.isIncrease), rank(b.isIncrease)),
		cmp.Compare(corev1.PodPriority(b.pod), corev1.PodPriority(a.pod)),
		cmp.Compare(rank(podfacts.QOSClass(a.pod) != v1.PodQOSGuaranteed), rank(podfacts.QOSClass(b.pod) != v1.PodQOSGuaranteed)),
		compareSince(a.waiting.Since, b.waiting.Since),
	)
}

// compareSince orders by waiting time, longest first. Resizes that have not waited are last.
func compareSince(a, b time.Time) int {
	return cmp.Or(cmp.Compare(rank(a.IsZero()), rank(b.IsZero())), a.Compare(b))
}

func rank(late bool) int {
	if late {
		return 1
	}
	return 0
}

func isIncrease(from, to *v1.Pod) bool {
	has, wants := resource.PodRequests(from, resource.PodResourcesOptions{}), resource.PodRequests(to, resource.PodResourcesOptions{})
	return wants.Cpu().Cmp(*has.Cpu()) > 0 || wants.Memory().Cmp(*has.Memory()) > 0
}

type round struct {
	in        Input
	allocated []*v1.Pod // Input.Pods with the allocations so far
	verdicts  []Verdict
}

func (r *round) decide(z resize) Verdict {
	v := Verdict{Pod: z.pod, WasDeferred: z.waiting.Reason == v1.PodReasonDeferred}
	err := r.check(z)
	if err == nil {
		r.allocated[z.index] = z.pod
		v.Granted, v.IsNew = true, true
		return v
	}
	v.Waiting = Waiting{Generation: z.pod.Generation, Reason: v1.PodReasonDeferred, Message: messageOf(err), Since: r.in.Now}
	var never *Infeasible
	if errors.As(err, &never) {
		v.Waiting.Reason, v.Detail = v1.PodReasonInfeasible, never.Detail
	}
	if v.Waiting.Reason == z.waiting.Reason {
		v.Waiting.Since = z.waiting.Since
	}
	v.IsNew = v.Waiting.Reason != z.waiting.Reason || v.Waiting.Generation != z.waiting.Generation
	return v
}

func (r *round) check(z resize) error {
	if err := ResourcesOf(z.pod).check(); err != nil {
		return &Infeasible{Detail: detailInvalid, Message: err.Error()}
	}
	if err := r.in.Rules.Check(r.allocated[z.index], z.pod); err != nil {
		return err
	}
	return r.in.Fit(z.pod, r.others(z.index))
}

// messageOf omits the reason of a Rejection, because the reason of the resize is Deferred.
func messageOf(err error) string {
	var why *syncloop.Rejection
	if errors.As(err, &why) {
		return why.Message
	}
	return err.Error()
}

func (r *round) others(index int) []*v1.Pod {
	return slices.Delete(slices.Clone(r.allocated), index, index+1)
}
