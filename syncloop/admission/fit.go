package admission

import (
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

// Shortage is a resource of which a node has not enough left: thousandths for cpu, and
// else its units.
type Shortage struct {
	Name                      v1.ResourceName
	Requested, Used, Capacity int64
}

// Missing is by how much there is too little, as far as that can be counted.
func (s Shortage) Missing() int64 {
	if s.Used > s.Capacity {
		return plus(s.Requested, s.Used-s.Capacity)
	}
	return s.Requested - (s.Capacity - s.Used)
}

// Reason is that of a pod that is refused for it.
func (s Shortage) Reason() string { return "OutOf" + string(s.Name) }

// String is the message of the refusal.
func (s Shortage) String() string {
	return fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", s.Name, s.Requested, s.Used, s.Capacity)
}

// Shortages lists of what a node with so much allocatable has not enough left for a pod,
// in a fixed order: pods, cpu, memory, ephemeral storage, then others by name.
func Shortages(pod *v1.Pod, active []*v1.Pod, allocatable v1.ResourceList) []Shortage {
	var l ledger
	return l.shortages(pod, active, allocatable)
}

func (l *ledger) shortages(pod *v1.Pod, active []*v1.Pod, allocatable v1.ResourceList) (short []Shortage) {
	want := requested(pod)
	var all []Shortage
	for _, name := range want.names() {
		has, told := allocatable[name]
		if told || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
			all = append(all, Shortage{Name: name, Requested: want[name], Capacity: podfacts.Amount(name, has)})
		}
	}
	of := l.of(active)
	for _, other := range active {
		if other.UID == pod.UID {
			continue
		}
		for i := range all {
			all[i].Used = plus(all[i].Used, of[other][all[i].Name])
		}
	}
	for _, s := range all {
		if s.Missing() > 0 {
			short = append(short, s)
		}
	}
	return short
}

// Config configures a Fit. Allocatable is required.
type Config struct {
	// Allocatable is what the node has for pods, as far as that is known.
	Allocatable func() v1.ResourceList
	// Leaving tells whether an active pod is about to stop. What it holds is waited for
	// instead of refusing a pod, or ending others. nil: those that are being deleted.
	Leaving func(pod *v1.Pod) bool
	// Preempt ends pods for a critical one, as what was missing for it says, and returns at
	// once; from then on they are Leaving. nil refuses critical pods as any others.
	Preempt func(pod *v1.Pod, victims []*v1.Pod, missing []Shortage)
	// Wanted tells whether a pod that was held back is still to run. nil: it is.
	Wanted func(uid types.UID) bool
	// Logger hears of preemptions. nil means none.
	Logger *slog.Logger
}

// Fit is a syncloop.Admitter that refuses pods for which a node has not enough left. Use
// New. Only the Loop may use it.
type Fit struct {
	cfg    Config
	ledger ledger
	// waiting are critical pods for which others make room: nobody else gets that.
	waiting map[types.UID]*v1.Pod
}

var _ syncloop.Admitter = (*Fit)(nil)

// New checks the configuration.
func New(cfg Config) (*Fit, error) {
	if err := fields.Required("admission: Config.Allocatable", cfg.Allocatable); err != nil {
		return nil, err
	}
	fields.Default(&cfg.Leaving, func(pod *v1.Pod) bool { return pod.DeletionTimestamp != nil })
	fields.Default(&cfg.Wanted, func(types.UID) bool { return true })
	fields.Logger(&cfg.Logger)
	return &Fit{cfg: cfg, waiting: map[types.UID]*v1.Pod{}}, nil
}

// Shortages is the function of that name, and remembers what pods request. It is safe for
// concurrent use.
func (f *Fit) Shortages(pod *v1.Pod, active []*v1.Pod) []Shortage {
	f.ledger.mu.Lock()
	defer f.ledger.mu.Unlock()
	return f.ledger.shortages(pod, active, f.cfg.Allocatable())
}

// Admit implements syncloop.Admitter. A pod that will fit once others have left is held
// back, and so is a critical one for which others have to go. A static pod is not in the
// way of the one of its name that replaces it.
func (f *Fit) Admit(pod *v1.Pod, active []*v1.Pod) error {
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
		return fmt.Errorf("it waits until pods have stopped: %v", now[0])
	case !podfacts.IsCritical(pod) || f.cfg.Preempt == nil:
		return syncloop.Reject(short[0].Reason(), "%v", short[0])
	}
	return f.preempt(pod, staying, short)
}

// Contenders are the pods that hold something of the node, or are to have it before this one:
// the active ones, and, unless this one is critical, the critical ones for which others make room.
func (f *Fit) Contenders(pod *v1.Pod, active []*v1.Pod) []*v1.Pod {
	if podfacts.IsCritical(pod) {
		return active
	}
	out := slices.Clone(active)
	for uid, waits := range f.waiting {
		if !f.cfg.Wanted(uid) {
			delete(f.waiting, uid)
			continue
		}
		out = append(out, waits)
	}
	return out
}

func (f *Fit) preempt(pod *v1.Pod, staying []*v1.Pod, short []Shortage) error {
	victims, err := chooseVictims(pod, staying, short)
	if err != nil {
		delete(f.waiting, pod.UID)
		return syncloop.Reject("UnexpectedAdmissionError", "%v", err)
	}
	f.waiting[pod.UID] = pod
	f.cfg.Logger.Info("pods end for a critical one", "pod", pod.Namespace+"/"+pod.Name, "podUID", pod.UID, "victims", len(victims), "missing", short[0].String())
	f.cfg.Preempt(pod, victims, short)
	return fmt.Errorf("it is critical, and waits until %d pods have made room: %v", len(victims), short[0])
}
