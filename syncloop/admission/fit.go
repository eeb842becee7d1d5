package admission

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/syncloop"
)

// Shortage is a resource that a pod requests and the node lacks, in thousandths for cpu and in the
// resource's unit otherwise.
type Shortage struct {
	Name                      v1.ResourceName
	Requested, Used, Capacity int64
}

// Missing returns the missing amount. It saturates at the largest int64.
func (s Shortage) Missing() int64 {
	if s.Used > s.Capacity {
		return saturatingSum(s.Requested, s.Used-s.Capacity)
	}
	return s.Requested - (s.Capacity - s.Used)
}

// Reason returns the reason of the rejection, such as "OutOfcpu".
func (s Shortage) Reason() string { return "OutOf" + string(s.Name) }

// String returns the message of the rejection.
func (s Shortage) String() string {
	return fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", s.Name, s.Requested, s.Used, s.Capacity)
}

// Shortages returns the resources that a node with these allocatable resources lacks for a pod, in
// a fixed order: pods, cpu, memory, ephemeral storage, then others by name.
func Shortages(pod *v1.Pod, active []*v1.Pod, allocatable v1.ResourceList) []Shortage {
	var l ledger
	return l.shortages(pod, active, allocatable)
}

func (l *ledger) shortages(pod *v1.Pod, active []*v1.Pod, allocatable v1.ResourceList) (short []Shortage) {
	want := requested(pod)
	var all []Shortage
	for _, name := range want.names() {
		has, listed := allocatable[name]
		if listed || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
			all = append(all, Shortage{Name: name, Requested: want[name], Capacity: podfacts.Amount(name, has)})
		}
	}
	of := l.of(active)
	for _, other := range active {
		if other.UID == pod.UID {
			continue
		}
		for i := range all {
			all[i].Used = saturatingSum(all[i].Used, of[other][all[i].Name])
		}
	}
	for _, s := range all {
		if s.Missing() > 0 {
			short = append(short, s)
		}
	}
	return short
}

var errNoAllocatable = errors.New("waiting for the node's allocatable resources")

// Config configures a Fit. Allocatable is required.
type Config struct {
	// Allocatable returns the node's allocatable resources. While it returns nil, pods wait.
	// Resources that it does not list are not checked, except hugepages.
	Allocatable func() v1.ResourceList
	// Leaving reports whether an active pod will stop soon. Pods wait for its resources; they are
	// not rejected, and no other pods end for them. Default: the pod is being deleted.
	Leaving func(pod *v1.Pod) bool
	// Preempt starts the termination of victims for a critical pod; missing are its shortages. It
	// must not block. From then on Leaving reports true for the victims. Optional: without it
	// critical pods are rejected like others.
	Preempt func(pod *v1.Pod, victims []*v1.Pod, missing []Shortage)
	// Wanted reports whether a waiting pod is still desired. Default: always true.
	Wanted func(uid types.UID) bool
	// Logger receives preemptions. Optional: without it they are not logged.
	Logger *slog.Logger
}

// Fit is a syncloop.Admitter that rejects pods for which the node lacks resources. Use New. Only
// the Loop's goroutine may call its methods, except Shortages.
type Fit struct {
	cfg    Config
	ledger ledger
	// waiting are the critical pods that wait for victims. Their resources are reserved.
	waiting map[types.UID]*v1.Pod
}

var _ syncloop.Admitter = (*Fit)(nil)

// New returns a Fit, or an error if Allocatable is missing.
func New(cfg Config) (*Fit, error) {
	if err := fields.Required("admission: Config.Allocatable", cfg.Allocatable); err != nil {
		return nil, err
	}
	fields.Default(&cfg.Leaving, func(pod *v1.Pod) bool { return pod.DeletionTimestamp != nil })
	fields.Default(&cfg.Wanted, func(types.UID) bool { return true })
	fields.Logger(&cfg.Logger)
	return &Fit{cfg: cfg, waiting: map[types.UID]*v1.Pod{}}, nil
}

// Shortages is the package's Shortages with the configured Allocatable and a cache of requests. It
// is safe for concurrent use.
func (f *Fit) Shortages(pod *v1.Pod, active []*v1.Pod) []Shortage {
	f.ledger.mu.Lock()
	defer f.ledger.mu.Unlock()
	return f.ledger.shortages(pod, active, f.cfg.Allocatable())
}

// Admit implements syncloop.Admitter. A pod waits if it fits as soon as leaving pods have stopped,
// and a critical pod also if it fits after the end of its victims. Other pods without room are
// rejected with Shortage.Reason. A critical pod whose victims would not suffice is rejected with
// UnexpectedAdmissionError, or with Shortage.Reason if it is static, because that message has the
// amounts (upstream: UnexpectedAdmissionError). A static pod does not count an older pod of its own
// name.
func (f *Fit) Admit(pod *v1.Pod, active []*v1.Pod) error {
	if f.cfg.Allocatable() == nil {
		return errNoAllocatable
	}
	all := f.Contenders(pod, active)
	if podfacts.IsStatic(pod) {
		all = slices.DeleteFunc(slices.Clone(all), func(other *v1.Pod) bool {
			return podfacts.IsStatic(other) && podfacts.FullName(other) == podfacts.FullName(pod)
		})
	}
	now := f.Shortages(pod, all)
	if len(now) == 0 {
		delete(f.waiting, pod.UID)
		return nil
	}
	staying := slices.DeleteFunc(slices.Clone(all), f.cfg.Leaving)
	short := f.Shortages(pod, staying)
	switch {
	case len(short) == 0:
		return fmt.Errorf("waiting for terminating pods: %v", now[0])
	case !podfacts.IsCritical(pod) || f.cfg.Preempt == nil:
		return syncloop.Reject(short[0].Reason(), "%v", short[0])
	}
	return f.preempt(pod, staying, short)
}

// Contenders returns the pods that count beside pod: the active ones and, unless pod is critical,
// the critical pods that wait for their victims.
func (f *Fit) Contenders(pod *v1.Pod, active []*v1.Pod) []*v1.Pod {
	if podfacts.IsCritical(pod) {
		return active
	}
	out := slices.Clone(active)
	for uid, waiting := range f.waiting {
		if !f.cfg.Wanted(uid) {
			delete(f.waiting, uid)
			continue
		}
		out = append(out, waiting)
	}
	return out
}

func (f *Fit) preempt(pod *v1.Pod, staying []*v1.Pod, short []Shortage) error {
	victims, err := chooseVictims(pod, staying, short)
	if err != nil {
		delete(f.waiting, pod.UID)
		if podfacts.IsStatic(pod) {
			return syncloop.Reject(short[0].Reason(), "%v", short[0])
		}
		return syncloop.Reject("UnexpectedAdmissionError", "Unexpected error while attempting to recover from admission failure: %v", err)
	}
	f.waiting[pod.UID] = pod
	f.cfg.Logger.Info("preempting pods for a critical pod", "pod", pod.Namespace+"/"+pod.Name, "podUID", pod.UID, "victims", len(victims), "missing", short[0].String())
	f.cfg.Preempt(pod, victims, short)
	return fmt.Errorf("waiting for %d preempted pods: %v", len(victims), short[0])
}
