package podsource

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/syncloop"
)

// MergerConfig configures a Merger. The zero value works.
type MergerConfig struct {
	// Sources are the names of sources that will deliver sets, beyond those that
	// register themselves (NewFileSource, FromChannel). The Merger is not ready
	// before each has delivered and has been handled: name only sources that are
	// really there.
	Sources []string
	// Event records a Kubernetes event about a pod. nil records none.
	Event podwright.EventFunc
	// Logger receives warnings about pods that cannot be taken. nil discards.
	Logger *slog.Logger
}

// ErrNoSource is returned for a source without a name.
var ErrNoSource = errors.New("podsource: a source needs a name")

// Merger keeps the newest complete set of pods of every named source for a
// syncloop.Loop: it is a syncloop.PodSource. Use NewMerger. It is safe for concurrent
// use.
type Merger struct {
	cfg MergerConfig

	mu      sync.Mutex
	sources map[string]*sourceState
}

// sourceState is the state of one source. Its pods are copies and never change.
type sourceState struct {
	// delivered: there was a set. ready: one has been handled.
	delivered, ready bool
	newest           []*v1.Pod
	// copies has the newest pods by those they are copies of, if these never
	// change.
	copies map[*v1.Pod]*v1.Pod
	// refused are the warnings about the newest set.
	refused string
}

var _ syncloop.PodSource = (*Merger)(nil)

// NewMerger returns a Merger with the configured sources.
func NewMerger(cfg MergerConfig) (*Merger, error) {
	fields.Logger(&cfg.Logger)
	fields.Default(&cfg.Event, func(v1.ObjectReference, string, string, string) {})
	m := &Merger{cfg: cfg, sources: map[string]*sourceState{}}
	for _, name := range cfg.Sources {
		if err := m.Register(name); err != nil {
			return nil, fmt.Errorf("MergerConfig.Sources: %w", err)
		}
	}
	return m, nil
}

// Register announces a source: until it has delivered a set that has been
// handled, the Merger is not ready. Registering a source again does nothing.
func (m *Merger) Register(source string) error {
	if source == "" {
		return ErrNoSource
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.source(source)
	return nil
}

// source returns the state of a source, creating it. Call it with mu held.
func (m *Merger) source(name string) *sourceState {
	src, ok := m.sources[name]
	if !ok {
		src = &sourceState{}
		m.sources[name] = src
	}
	return src
}

// Set replaces the complete set of pods of a source; an empty set means that it
// has none. The pods are copied. Of several pods with one name and namespace, or
// one UID, the first is taken and the others are left out with a warning. Pods without
// UID, name or namespace are left out too, and named with the field in an error that
// wraps ErrNoIdentity; the others of the set are taken all the same. Set registers the
// source.
//
// Set calls emit with syncloop.PodsChanged: it is the emit of the source's Run, or
// Loop.Emit. nil is for a Merger that no Loop reads. A source that runs again emits
// syncloop.PodsChanged first, because the Merger may have a set that no Loop has read.
func (m *Merger) Set(source string, pods []*v1.Pod, emit func(syncloop.Event)) error {
	return m.set(source, pods, false, emit)
}

// SetConstant is Set for pods that nobody ever changes again, such as those of a cache
// that replaces what it has. They are shared but for their annotations, and one that is in
// the set again, as the same object, costs neither a copy nor a comparison.
func (m *Merger) SetConstant(source string, pods []*v1.Pod, emit func(syncloop.Event)) error {
	return m.set(source, pods, true, emit)
}

func (m *Merger) set(source string, pods []*v1.Pod, constant bool, emit func(syncloop.Event)) error {
	if source == "" {
		return ErrNoSource
	}
	taken, refused, err := choose(pods)
	m.take(source, taken, refused, constant, emit)
	return err
}

// take replaces the set of a source. Each name and UID is in it once.
func (m *Merger) take(source string, pods []*v1.Pod, refused []leftOut, constant bool, emit func(syncloop.Event)) {
	if m.store(source, pods, refused, constant) {
		m.warn(source, refused)
	}
	if emit != nil {
		emit(changed(source))
	}
}

// changed returns the event about a newer set of a source. A source emits it at the start
// of Run too: the Loop may not have received the event about the set of an earlier Run.
func changed(source string) syncloop.Event {
	return syncloop.Event{Kind: syncloop.PodsChanged, Source: source}
}

// store takes a set over and tells whether the refused pods are others than those
// of the set before.
func (m *Merger) store(source string, taken []*v1.Pod, refused []leftOut, constant bool) (news bool) {
	var warnings strings.Builder
	for _, r := range refused {
		fmt.Fprintln(&warnings, podfacts.FullName(r.pod), r.pod.UID, r.message)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	src := m.source(source)
	src.adopt(source, taken, constant, time.Now())
	src.delivered = true
	news = src.refused != warnings.String()
	src.refused = warnings.String()
	return news
}

// copyOf is a copy with annotations of its own; of a pod that never changes it shares the
// rest.
func copyOf(pod *v1.Pod, constant bool) *v1.Pod {
	var own *v1.Pod
	if constant {
		shared := *pod
		own = &shared
		own.Annotations = maps.Clone(pod.Annotations)
	} else {
		own = pod.DeepCopy()
	}
	if own.Annotations == nil {
		own.Annotations = map[string]string{}
	}
	return own
}

// adopt copies the pods of a set and annotates the copies with their source and their
// first sight. A pod that the set before does not have is seen for the first time.
func (s *sourceState) adopt(source string, pods []*v1.Pod, constant bool, now time.Time) {
	adopted := make([]*v1.Pod, 0, len(pods))
	var known map[types.UID]*v1.Pod // the set before, indexed on demand
	var copies map[*v1.Pod]*v1.Pod
	if constant {
		copies = make(map[*v1.Pod]*v1.Pod, len(pods))
	}
	for _, given := range pods {
		own := s.copies[given]
		if !constant || own == nil {
			own = copyOf(given, constant)
			own.Annotations[podfacts.ConfigSource] = source
			if known == nil {
				known = byUID(s.newest)
			}
			if before := known[own.UID]; before != nil && identityOf(before) == identityOf(own) {
				own.Annotations[podfacts.ConfigSeen] = before.Annotations[podfacts.ConfigSeen]
			} else {
				own.Annotations[podfacts.ConfigSeen] = now.Format(time.RFC3339Nano)
			}
		}
		if constant {
			copies[given] = own
		}
		adopted = append(adopted, own)
	}
	s.newest, s.copies = adopted, copies
}

// byUID indexes pods.
func byUID(pods []*v1.Pod) map[types.UID]*v1.Pod {
	index := make(map[types.UID]*v1.Pod, len(pods))
	for _, pod := range pods {
		index[pod.UID] = pod
	}
	return index
}

// warn reports the pods that were left out of a set.
func (m *Merger) warn(source string, refused []leftOut) {
	for _, r := range refused {
		m.cfg.Logger.Warn("pod left out", "source", source, "pod", r.pod.Namespace+"/"+r.pod.Name, "podUID", r.pod.UID, "reason", r.message)
		ref := v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: r.pod.Namespace, Name: r.pod.Name, UID: r.pod.UID}
		m.cfg.Event(ref, v1.EventTypeWarning, "FailedValidation", fmt.Sprintf("pod from %s left out: %s", source, r.message))
	}
}

// Pods returns the newest set of a source, false before there was one. The pods
// are shared and never change.
func (m *Merger) Pods(source string) (pods []*v1.Pod, delivered bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	src, ok := m.sources[source]
	if !ok || !src.delivered {
		return nil, false
	}
	return slices.Clone(src.newest), true
}

// Handled says that a set of a source has been handled, which makes the source
// ready.
func (m *Merger) Handled(source string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if src, ok := m.sources[source]; ok && src.delivered {
		src.ready = true
	}
}

// Ready tells whether every registered source has delivered a set and that set
// has been handled. Before, nobody knows which pods should be there, so nothing
// may be taken away.
func (m *Merger) Ready() bool { return len(m.Waiting()) == 0 }

// SourceReady is Ready for one source. A source that nobody registered is not
// ready.
func (m *Merger) SourceReady(source string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	src, ok := m.sources[source]
	return ok && src.ready
}

// Waiting returns the names of the sources that are not ready.
func (m *Merger) Waiting() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(m.sources)) {
		if !m.sources[name].ready {
			names = append(names, name)
		}
	}
	return names
}
