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
	// Sources are names of sources that will deliver sets. Sources that register themselves
	// (NewFileSource, FromChannel) are added. The Merger is not ready until a set of each has
	// been handled, so list only sources that exist.
	Sources []string
	// Event records a Kubernetes event about a pod. Optional.
	Event podwright.EventFunc
	// Logger receives warnings about pods that are ignored. Optional: without it they are
	// discarded.
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
	// owners are the sources of the UIDs. A UID belongs to the first source that has it, until a
	// set without it was handled.
	owners map[types.UID]string
}

// sourceState is the state of one source. Its pods are copies and never change.
type sourceState struct {
	// delivered is true after the first set, ready after the first handled set.
	delivered, ready bool
	newest           []*v1.Pod
	// read are the pods of the newest set that were last read. readNewest is true after a read of the
	// newest set, handledNewest after that set was handled.
	read                      []*v1.Pod
	readNewest, handledNewest bool
	// emit is the newest emit of Set, or nil.
	emit func(syncloop.Event)
	// copies are the newest pods by the immutable objects that they were copied from.
	copies map[*v1.Pod]*v1.Pod
	// refused are the warnings about the newest set.
	refused string
}

var _ syncloop.PodSource = (*Merger)(nil)

// NewMerger returns a Merger with the configured sources.
func NewMerger(cfg MergerConfig) (*Merger, error) {
	fields.Logger(&cfg.Logger)
	fields.Default(&cfg.Event, func(v1.ObjectReference, string, string, string) {})
	m := &Merger{cfg: cfg, sources: map[string]*sourceState{}, owners: map[types.UID]string{}}
	for _, name := range cfg.Sources {
		if err := m.Register(name); err != nil {
			return nil, fmt.Errorf("MergerConfig.Sources: %w", err)
		}
	}
	return m, nil
}

// Register announces a source: the Merger is not ready until a set of it has been handled.
// Registering a source again has no effect.
func (m *Merger) Register(source string) error {
	if source == "" {
		return ErrNoSource
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.source(source)
	return nil
}

// source returns the state of a source and creates it if needed. The caller holds mu.
func (m *Merger) source(name string) *sourceState {
	src, ok := m.sources[name]
	if !ok {
		src = &sourceState{}
		m.sources[name] = src
	}
	return src
}

// Set replaces the complete set of pods of a source; an empty set means that it has none. The pods
// are copied, and the copies get the API server's defaults (see Default). Set registers the source. It ignores these pods, with a warning, and takes the others:
//
//   - of several pods with one name and namespace, or one UID, all but a pod of the previous set, or
//     else the first;
//   - pods with the UID of another source's pod, until that pod is removed;
//   - pods with names that are unsafe in paths;
//   - nil pods, and pods without UID, name or namespace. For these Set also returns an error, which wraps
//     ErrNoIdentity and names them with the field.
//
// Set calls emit with syncloop.PodsChanged. emit is the emit of the source's Run, or Loop.Emit. It
// may be nil for a Merger without a Loop. A source that runs again emits syncloop.PodsChanged
// first, because the Merger may have a set that no Loop has read.
func (m *Merger) Set(source string, pods []*v1.Pod, emit func(syncloop.Event)) error {
	return m.set(source, pods, false, emit)
}

// SetConstant is Set for immutable pods that have their defaults, for example from a cache of the
// API server. The Merger shares everything except their annotations. A pod that is in the next set as the same
// object is neither copied nor compared.
func (m *Merger) SetConstant(source string, pods []*v1.Pod, emit func(syncloop.Event)) error {
	return m.set(source, pods, true, emit)
}

func (m *Merger) set(source string, pods []*v1.Pod, constant bool, emit func(syncloop.Event)) error {
	if source == "" {
		return ErrNoSource
	}
	m.mu.Lock()
	previous := m.source(source).newest
	m.mu.Unlock()
	taken, refused, err := choose(pods, previous)
	m.replaceSet(source, taken, refused, constant, emit)
	return err
}

// replaceSet replaces the set of a source. Each name and UID occurs once in pods.
func (m *Merger) replaceSet(source string, pods []*v1.Pod, refused []ignoredPod, constant bool, emit func(syncloop.Event)) {
	m.warn(source, m.store(source, pods, refused, constant, emit))
	if emit != nil {
		emit(changed(source))
	}
}

// changed returns the event about a newer set of a source. A source emits it at the start
// of Run too: the Loop may not have received the event about the set of an earlier Run.
func changed(source string) syncloop.Event {
	return syncloop.Event{Kind: syncloop.PodsChanged, Source: source}
}

// store stores a set and returns the refused pods if they have changed since the previous set.
func (m *Merger) store(source string, taken []*v1.Pod, refused []ignoredPod, constant bool, emit func(syncloop.Event)) []ignoredPod {
	m.mu.Lock()
	defer m.mu.Unlock()
	src := m.source(source)
	src.copyPods(source, taken, constant, time.Now())
	src.delivered, src.readNewest, src.handledNewest = true, false, false
	if emit != nil {
		src.emit = emit
	}
	refused = append(refused, m.claimUIDs(source, src.newest)...)
	var warnings strings.Builder
	for _, r := range refused {
		if r.pod != nil {
			fmt.Fprint(&warnings, podfacts.FullName(r.pod), " ", r.pod.UID, " ")
		}
		fmt.Fprintln(&warnings, r.message)
	}
	if src.refused == warnings.String() {
		return nil
	}
	src.refused = warnings.String()
	return refused
}

// claimUIDs makes a source the owner of the UIDs that have none, and returns the pods whose UID
// another source owns. The caller holds mu.
func (m *Merger) claimUIDs(source string, pods []*v1.Pod) (refused []ignoredPod) {
	for _, pod := range pods {
		switch owner, owned := m.owners[pod.UID]; {
		case !owned:
			m.owners[pod.UID] = source
		case owner != source:
			refused = append(refused, ignoredPod{pod, fmt.Sprintf("metadata.uid: %s is already the UID of a pod of source %s", pod.UID, owner)})
		}
	}
	return refused
}

// releaseUIDs ends the ownership of UIDs that are in neither the newest set of a source nor the set
// that was last read. It returns the emits of the sources that own such a UID now. The caller holds
// mu.
func (m *Merger) releaseUIDs(source string, src *sourceState) (heirs map[string]func(syncloop.Event)) {
	has := make(map[types.UID]bool, len(src.newest))
	for _, pods := range [][]*v1.Pod{src.newest, src.read} {
		for _, pod := range pods {
			has[pod.UID] = true
		}
	}
	for uid, owner := range m.owners {
		if owner != source || has[uid] {
			continue
		}
		delete(m.owners, uid)
		for _, name := range slices.Sorted(maps.Keys(m.sources)) {
			other := m.sources[name]
			if slices.ContainsFunc(other.newest, func(pod *v1.Pod) bool { return pod.UID == uid }) {
				m.owners[uid] = name
				if heirs == nil {
					heirs = map[string]func(syncloop.Event){}
				}
				heirs[name] = other.emit
				break
			}
		}
	}
	return heirs
}

// copyOf returns a copy with separate annotations. The copy of an immutable pod shares the
// remaining fields.
func copyOf(pod *v1.Pod, constant bool) *v1.Pod {
	var own *v1.Pod
	if constant {
		shared := *pod
		own = &shared
		own.Annotations = maps.Clone(pod.Annotations)
	} else {
		own = pod.DeepCopy()
		Default(own)
	}
	if own.Annotations == nil {
		own.Annotations = map[string]string{}
	}
	return own
}

// copyPods copies the pods of a set and annotates the copies with their source and the time when they
// were first seen, which is now for pods that are not in the previous set.
func (s *sourceState) copyPods(source string, pods []*v1.Pod, constant bool, now time.Time) {
	adopted := make([]*v1.Pod, 0, len(pods))
	var previous map[types.UID]*v1.Pod // the previous set, indexed on demand
	var copies map[*v1.Pod]*v1.Pod
	if constant {
		copies = make(map[*v1.Pod]*v1.Pod, len(pods))
	}
	for _, pod := range pods {
		own := s.copies[pod]
		if !constant || own == nil {
			own = copyOf(pod, constant)
			own.Annotations[podfacts.ConfigSource] = source
			if previous == nil {
				previous = byUID(s.newest)
			}
			if before := previous[own.UID]; before != nil && identityOf(before) == identityOf(own) {
				own.Annotations[podfacts.ConfigSeen] = before.Annotations[podfacts.ConfigSeen]
			} else {
				own.Annotations[podfacts.ConfigSeen] = now.Format(time.RFC3339Nano)
			}
		}
		if constant {
			copies[pod] = own
		}
		adopted = append(adopted, own)
	}
	s.newest, s.copies = adopted, copies
}

func byUID(pods []*v1.Pod) map[types.UID]*v1.Pod {
	index := make(map[types.UID]*v1.Pod, len(pods))
	for _, pod := range pods {
		index[pod.UID] = pod
	}
	return index
}

func (m *Merger) warn(source string, refused []ignoredPod) {
	for _, r := range refused {
		if r.pod == nil {
			m.cfg.Logger.Warn("pod ignored", "source", source, "reason", r.message)
			continue
		}
		m.cfg.Logger.Warn("pod ignored", "source", source, "pod", r.pod.Namespace+"/"+r.pod.Name, "podUID", r.pod.UID, "reason", r.message)
		m.cfg.Event(podfacts.Reference(r.pod), v1.EventTypeWarning, "FailedValidation", fmt.Sprintf("pod from %s ignored: %s", source, r.message))
	}
}

// Pods returns the newest set of a source without the pods whose UID another source owns, or false
// before the first set. The pods are shared and never change.
func (m *Merger) Pods(source string) (pods []*v1.Pod, delivered bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	src, ok := m.sources[source]
	if !ok || !src.delivered {
		return nil, false
	}
	src.readNewest = true
	src.read = slices.DeleteFunc(slices.Clone(src.newest), func(pod *v1.Pod) bool { return m.owners[pod.UID] != source })
	return slices.Clone(src.read), true
}

// Handled records that a set of a source has been handled, which makes the source ready. The UIDs
// of its removed pods are then free for other sources, which emit syncloop.PodsChanged if they have
// such a pod.
func (m *Merger) Handled(source string) {
	m.mu.Lock()
	var heirs map[string]func(syncloop.Event)
	if src, ok := m.sources[source]; ok && src.delivered {
		src.ready, src.handledNewest = true, src.readNewest
		heirs = m.releaseUIDs(source, src)
	}
	m.mu.Unlock()
	for name, emit := range heirs {
		if emit != nil {
			emit(changed(name))
		}
	}
}

// hasHandledNewest reports whether the newest set of a source has been handled.
func (m *Merger) hasHandledNewest(source string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	src := m.sources[source]
	return src != nil && src.handledNewest
}

// Ready reports whether a set of every registered source has been handled. Before that, the
// desired pods are incomplete, and no pods may be removed.
func (m *Merger) Ready() bool { return len(m.Waiting()) == 0 }

// SourceReady reports whether a source is ready. An unregistered source is not ready.
func (m *Merger) SourceReady(source string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	src, ok := m.sources[source]
	return ok && src.ready
}

// Waiting returns the names of the sources that are not ready, sorted.
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
