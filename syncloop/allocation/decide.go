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
	// Generation is that of the pod which asks for it.
	Generation int64
	// Reason is v1.PodReasonDeferred or v1.PodReasonInfeasible.
	Reason string
	// Message says why.
	Message string
	// Since is when it was first not granted for this reason.
	Since time.Time
}

// Infeasible is why a resize can never be granted, as an error.
type Infeasible struct {
	// Detail is one word for metrics, such as "guaranteed_pod_cpu_manager_static_policy".
	Detail string
	// Message is for people.
	Message string
}

// Error returns the message.
func (e *Infeasible) Error() string { return e.Message }

// DetailInvalid is the Detail of a resize to amounts that nobody can count with.
const DetailInvalid = "invalid_amount"

// Fit tells whether a pod would fit beside others, which have what they were granted. An
// *Infeasible says that it never will; any other error, that it does not now.
type Fit func(pod *v1.Pod, others []*v1.Pod) error

// Input is what a decision is made of. Nothing in it is changed.
type Input struct {
	// Pods are the active pods, as they should be.
	Pods []*v1.Pod
	// Granted is what a pod was granted; false for one that was not admitted yet.
	Granted func(uid types.UID) (Resources, bool)
	// Waiting are the resizes that wait.
	Waiting map[types.UID]Waiting
	// Rules say what can never be granted.
	Rules Rules
	// Fit decides about each resize that the rules allow.
	Fit Fit
	// Now is the moment of the decision.
	Now time.Time
}

// Verdict is what is decided about one pod that wants other resources than it has.
type Verdict struct {
	// Pod is the pod as it should be, which it becomes if Granted.
	Pod     *v1.Pod
	Granted bool
	// Waiting is why it is not granted.
	Waiting Waiting
	// Detail is that of the Infeasible.
	Detail string
	// IsNew tells that the verdict is another one than before, or about another
	// generation, and not only in other words: it is worth an event.
	IsNew bool
	// WasDeferred tells that the resize has waited.
	WasDeferred bool
}

// Decide decides about all resizes, in their order. A static pod is always granted what
// its manifest says, and a pod that is to be deleted keeps what it has.
func Decide(in Input) []Verdict {
	r := round{in: in, granted: make([]*v1.Pod, len(in.Pods))}
	var resizes []resize
	for i, pod := range in.Pods {
		r.granted[i] = pod
		has, ok := in.Granted(pod.UID)
		if !ok || has.Describes(pod) {
			continue
		}
		if podfacts.IsStatic(pod) {
			r.verdicts = append(r.verdicts, Verdict{Pod: pod, Granted: true})
			continue
		}
		r.granted[i] = has.Apply(pod)
		if pod.DeletionTimestamp == nil {
			resizes = append(resizes, resize{index: i, pod: pod, asksMore: asksMore(r.granted[i], pod), waiting: in.Waiting[pod.UID]})
		}
	}
	slices.SortStableFunc(resizes, compare)
	for _, z := range resizes {
		r.verdicts = append(r.verdicts, r.decide(z))
	}
	return r.verdicts
}

// resize is a pod that wants other resources than it has.
type resize struct {
	index    int // in Input.Pods
	pod      *v1.Pod
	asksMore bool
	waiting  Waiting
}

// compare orders resizes.
func compare(a, b resize) int {
	return cmp.Or(
		cmp.Compare(rank(a.asksMore), rank(b.asksMore)),
		cmp.Compare(corev1.PodPriority(b.pod), corev1.PodPriority(a.pod)),
		cmp.Compare(rank(podfacts.QOSClass(a.pod) != v1.PodQOSGuaranteed), rank(podfacts.QOSClass(b.pod) != v1.PodQOSGuaranteed)),
		compareSince(a.waiting.Since, b.waiting.Since),
	)
}

// compareSince puts what has waited longer first, and what has not waited last.
func compareSince(a, b time.Time) int {
	return cmp.Or(cmp.Compare(rank(a.IsZero()), rank(b.IsZero())), a.Compare(b))
}

func rank(late bool) int {
	if late {
		return 1
	}
	return 0
}

// asksMore tells whether a resize asks for more cpu or memory.
func asksMore(from, to *v1.Pod) bool {
	has, wants := resource.PodRequests(from, resource.PodResourcesOptions{}), resource.PodRequests(to, resource.PodResourcesOptions{})
	return wants.Cpu().Cmp(*has.Cpu()) > 0 || wants.Memory().Cmp(*has.Memory()) > 0
}

// round is one decision while it is made.
type round struct {
	in       Input
	granted  []*v1.Pod // Input.Pods, with what they have been granted by now
	verdicts []Verdict
}

func (r *round) decide(z resize) Verdict {
	v := Verdict{Pod: z.pod, WasDeferred: z.waiting.Reason == v1.PodReasonDeferred}
	err := r.check(z)
	if err == nil {
		r.granted[z.index] = z.pod
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

// check tells whether a resize can be granted.
func (r *round) check(z resize) error {
	if err := Of(z.pod).check(); err != nil {
		return &Infeasible{Detail: DetailInvalid, Message: err.Error()}
	}
	if err := r.in.Rules.Check(r.granted[z.index], z.pod); err != nil {
		return err
	}
	return r.in.Fit(z.pod, r.others(z.index))
}

// messageOf leaves out the reason of a Rejection: that of a resize is Deferred.
func messageOf(err error) string {
	var why *syncloop.Rejection
	if errors.As(err, &why) {
		return why.Message
	}
	return err.Error()
}

// others are the pods but one.
func (r *round) others(index int) []*v1.Pod {
	return slices.Delete(slices.Clone(r.granted), index, index+1)
}
