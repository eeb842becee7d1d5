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

// State is what is known about a volume of a pod.
type State uint8

// The states of a pod's volume.
const (
	// StateNotMounted: there is nothing that would have to be unmounted.
	StateNotMounted State = iota
	// StateMounted: it was mounted by this agent.
	StateMounted
	// StateUncertain: something may be there. It was found on disk, or a Mount or an
	// Unmount did not say what it has left.
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

// claimKey is the folder of a volume, without the pod.
type claimKey struct{ plugin, name string }

// volumeKey names a volume within its pod.
type volumeKey struct {
	plugin, name string
	block        bool
}

// unit is the part that all items have: the running operation, the outcome of the last
// one, and the place in the workQueue.
type unit struct {
	op    *operation // the one that runs
	retry retry
	err   error // of the last operation; nil after success
	errAt time.Time

	dirty bool
	due   time.Time
	place run.Place
}

func (u *unit) base() *unit { return u }

// podState is a pod that was given to Prepare or Release, or found on disk.
type podState struct {
	unit // for what is done to the whole pod
	uid  types.UID
	// pod is what Prepare was called with last; nil if it was not.
	pod *v1.Pod
	// releasing tells that Release was called, and Prepare not since.
	releasing bool
	// scanned tells that the sub paths are gone and that the volumes on disk are known.
	scanned bool
	volumes map[volumeKey]*volumeState
	// names are the volumes that the pod uses, by their names in its spec.
	names map[string]*nameState
	order []string
	// awaited tells that a Prepare has returned while something was missing.
	awaited bool
	// warnings are the new errors of mounted volumes that can no longer be resolved.
	warnings []error
}

// name is the pod's for people.
func (p *podState) name() string {
	if p.pod == nil {
		return string(p.uid)
	}
	return p.pod.Namespace + "/" + p.pod.Name + " (" + string(p.uid) + ")"
}

// wanted are the volumes that a pod uses, each once, in the order of its spec.
func (p *podState) wanted() (out []*volumeState) {
	for _, name := range p.order {
		if v := p.names[name].volume; v != nil && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// unused are the volumes of a pod that it does not use, sorted.
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

// nameState is a volume by its name in the pod's spec. Several names may stand for one
// volume, if they name the same claim.
type nameState struct {
	volume   *volumeState // nil as long as it could not be resolved
	readOnly bool
	reading  time.Time // since when its claim is being read; zero if it is not
	err      error     // of the last attempt to resolve it
	errAt    time.Time
	retry    retry
}

// volumeState is a volume of one pod.
type volumeState struct {
	unit
	pod    *podState
	key    volumeKey
	plugin volume.Plugin // nil if the agent has no plugin of this name
	shared *sharedState
	desiredVolume
	actualVolume
	queued bool // it waits for a refresh slot
}

// desiredVolume is the desired state of a volume of one pod. It is empty for a volume
// that was only found on the disk.
type desiredVolume struct {
	wanted      bool // its pod uses it and was not released
	requestedAt time.Time
	spec        *volume.Spec
	inside      []string
	remounts    bool            // Remounter.Remounts
	remount     bool            // its content has to be brought up to date
	objects     []volume.Object // Dependent.Objects
	expands     bool            // its plugin is an Expander
	label       string          // the SELinux label to mount it with
	needsLabel  string          // the SELinux label that its pod needs
}

// actualVolume is the actual state of a volume of one pod.
type actualVolume struct {
	state      State
	since      time.Time
	mounted    volume.Mounted
	refreshAt  time.Time
	found      bool  // on the disk; its state is StateUncertain
	unknown    bool  // it may be shared, but its volume is unknown
	expandedTo int64 // the size of its last expansion, if it is not shared
}

func (v *actualVolume) set(s State, now time.Time) {
	if v.state != s || v.since.IsZero() {
		v.state, v.since = s, now
	}
}

func (v *volumeState) claim() claimKey { return claimKey{v.key.plugin, v.key.name} }

func (v *volumeState) before(other *volumeState) bool {
	if has := v.state != StateNotMounted; has != (other.state != StateNotMounted) {
		return has
	}
	return cmp.Or(v.requestedAt.Compare(other.requestedAt), cmp.Compare(v.pod.uid, other.pod.uid)) < 0
}

// sharedState is a volume that pods share.
type sharedState struct {
	unit
	id     volume.ID
	plugin volume.Plugin
	spec   *volume.Spec
	users  set[*volumeState]

	verified   bool // it is known whether it has to be attached
	attachable bool // it has to be attached
	attached   bool // or need not be
	devicePath string

	stage State // as that of a mount
	path  string
	found bool
	label string // the SELinux label that it was last staged with
	// expandedTo is the size to which it was expanded.
	expandedTo int64
}

// first is the user of a shared volume for which it is staged: one that has it, or else
// the one that has wanted it for the longest time.
func (s *sharedState) first() (first *volumeState) {
	for v := range s.users {
		if v.wanted && (first == nil || v.before(first)) {
			first = v
		}
	}
	return first
}

// listState is the listing of what a Stager has staged.
type listState struct {
	unit
	plugin volume.Plugin
	done   bool
}

// ofOnePod tells that one pod at a time has the use of the volume.
func ofOnePod(s *volume.Spec) bool {
	p := s.Persistent
	return p != nil && slices.Equal(p.Spec.AccessModes, []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod})
}
