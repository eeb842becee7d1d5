package manager

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
)

// State is the state of a pod's volume.
type State uint8

// States of a pod's volume.
const (
	// StateNotMounted means that no unmount is necessary.
	StateNotMounted State = iota
	// StateMounted means that this agent mounted the volume.
	StateMounted
	// StateUncertain means that the volume may be mounted: it was found on the disk, or the
	// outcome of a Mount or Unmount is unknown.
	StateUncertain
)

// String returns the name of the state.
func (s State) String() string {
	names := []string{"NotMounted", "Mounted", "Uncertain"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

type set[T comparable] map[T]struct{}

func (s set[T]) add(x T) { s[x] = struct{}{} }

func (s set[T]) has(x T) bool { _, ok := s[x]; return ok }

// claimKey is the folder of a volume without the pod.
type claimKey struct{ plugin, name string }

// volumeKey identifies a volume within its pod.
type volumeKey struct {
	plugin, name string
	block        bool
}

// unit is the common part of all items: the running operation, the outcome of the last one, and
// the place in the workQueue.
type unit struct {
	op    *operation // running, or nil
	retry retry
	err   error // of the last operation; nil after success
	errAt time.Time
	errOf kind // the operation of err

	dirty       bool
	scheduledAt time.Time
	place       run.Place
}

func (u *unit) base() *unit { return u }

// podState is the state of a pod that was prepared or released, or found on the disk.
type podState struct {
	unit // for operations on the whole pod
	uid  types.UID
	// pod is the argument of the last Prepare, or nil.
	pod *v1.Pod
	// releasing is true after Release until the next Prepare.
	releasing bool
	// scanned is true if the sub paths were released and the pod's folders were read.
	scanned bool
	volumes map[volumeKey]*volumeState
	// names has the volumes that the pod uses, by their names in its spec.
	names map[string]*nameState
	order []string
	// notifyReady is true if a Prepare returned while volumes were missing.
	notifyReady bool
	// warnings are the new errors of mounted volumes that can no longer be resolved.
	warnings []error
}

// name returns the pod's name for people.
func (p *podState) name() string {
	if p.pod == nil {
		return string(p.uid)
	}
	return p.pod.Namespace + "/" + p.pod.Name + " (" + string(p.uid) + ")"
}

// wanted returns the volumes that a pod uses without duplicates, in the order of its spec.
func (p *podState) wanted() (out []*volumeState) {
	for _, name := range p.order {
		if v := p.names[name].volume; v != nil && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// unused returns the sorted volumes of a pod that it does not use.
func (p *podState) unused() (out []*volumeState) {
	used := p.wanted()
	for _, v := range p.volumes {
		if !slices.Contains(used, v) {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b *volumeState) int {
		return cmp.Or(cmp.Compare(a.key.name, b.key.name), cmp.Compare(a.key.plugin, b.key.plugin))
	})
	return out
}

// nameState is the state of a name in the pod's spec. Several names with one claim have the
// same volume.
type nameState struct {
	volume   *volumeState // nil until it is resolved
	readOnly bool
	reading  time.Time // start of the read of its claim, or zero
	err      error     // of the last attempt to resolve it
	errAt    time.Time
	retry    retry
}

type volumeState struct {
	unit
	pod    *podState
	key    volumeKey
	plugin volume.Plugin // nil if the agent lacks the plugin
	shared *sharedState
	desiredVolume
	actualVolume
	queued bool // it waits for a refresh slot
}

// desiredVolume is the desired state of a volume of one pod. It is empty for a volume that was
// only found on the disk.
type desiredVolume struct {
	wanted      bool // its pod uses it and was not released
	requestedAt time.Time
	spec        *volume.Spec
	inside      []string
	remounts    bool            // Remounter.Remounts
	remount     bool            // a refresh is due
	objects     []volume.Object // Dependent.Objects
	expands     bool            // its plugin is an Expander
	label       string          // the SELinux label for its mount
	needsLabel  string          // the SELinux label that its pod needs
}

type actualVolume struct {
	state      State
	since      time.Time
	mounted    volume.Mounted
	refreshAt  time.Time
	found      bool  // on the disk; its state is StateUncertain
	unknown    bool  // it may be shared, but its id is unknown
	expandedTo int64 // size of its last expansion, if it is not shared
}

func (v *actualVolume) set(s State, now time.Time) {
	if v.state != s || v.since.IsZero() {
		v.state, v.since = s, now
	}
}

func (v *volumeState) claim() claimKey { return claimKey{v.key.plugin, v.key.name} }

func (v *volumeState) before(other *volumeState) bool {
	if mounted := v.state != StateNotMounted; mounted != (other.state != StateNotMounted) {
		return mounted
	}
	return cmp.Or(v.requestedAt.Compare(other.requestedAt), cmp.Compare(v.pod.uid, other.pod.uid)) < 0
}

type sharedState struct {
	unit
	id     volume.ID
	plugin volume.Plugin
	spec   *volume.Spec
	users  set[*volumeState]

	verified   bool // attachable is reliable
	attachable bool // it must be attached
	attached   bool // or needs no attachment
	devicePath string

	stage      State // state of the stage
	path       string
	found      bool
	label      string // the SELinux label of its last Stage
	expandedTo int64
}

// first returns the user for which a shared volume is staged: a pod that has it mounted, or
// else the pod with the oldest request.
func (s *sharedState) first() (first *volumeState) {
	for v := range s.users {
		if v.wanted && (first == nil || v.before(first)) {
			first = v
		}
	}
	return first
}

type listState struct {
	unit
	plugin volume.Plugin
	done   bool
}

// ofOnePod reports whether only one pod at a time may use the volume.
func ofOnePod(s *volume.Spec) bool {
	p := s.Persistent
	return p != nil && slices.Equal(p.Spec.AccessModes, []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod})
}
