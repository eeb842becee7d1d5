package manager

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
)

// world is what is desired and what is there: plain data. next.go says what is to be
// done about the difference.
type world struct {
	pods   map[types.UID]*podState
	shared map[volume.ID]*sharedState
	// lists are the listings of what is staged, by the name of the Stager.
	lists map[string]*listState

	// objects are the volumes with the content of an object.
	objects map[volume.Object]set[*volumeState]
	// claimed are volumes of the same name, by plugin: those of one claim are.
	claimed map[claimKey]set[*volumeState]
	// unknown counts, by plugin, the volumes found on disk of which nobody knows yet
	// whether they are shared; unread are pods of which the disk could not be read.
	// Nothing is unstaged while there are any.
	unknown map[string]int
	unread  set[types.UID]
	// complete tells that all sources of pods were read.
	complete bool
	// refreshing counts the mounts of what is mounted already; queue are those that
	// wait for others to end.
	refreshing int
	queue      []*volumeState

	limit time.Duration // of each operation

	dirty   []actor          // what has to be looked at
	changed set[types.UID]   // the pods that somebody may wait for
	due     *run.Heap[actor] // what has to be looked at later
}

type set[T comparable] map[T]struct{}

func (s set[T]) add(x T)      { s[x] = struct{}{} }
func (s set[T]) has(x T) bool { _, ok := s[x]; return ok }

// claimKey is the folder of a volume, without the pod.
type claimKey struct{ plugin, name string }

// volumeKey names a volume within its pod.
type volumeKey struct {
	plugin, name string
	block        bool
}

// actor is something on which operations are made, one at a time.
type actor interface {
	base() *unit
	// next says what is to be done now, or what is waited for.
	next(w *world, now time.Time) step
}

// unit is what actors have in common.
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

// retry holds back an operation that has failed.
type retry struct {
	kind  kind
	delay time.Duration
	at    time.Time
}

const (
	firstDelay = 500 * time.Millisecond
	mostDelay  = 2*time.Minute + 2*time.Second
	// mostClaimDelay is that of reading a claim: upstream reads it whenever it tries to
	// start the pod.
	mostClaimDelay = 15 * time.Second
)

// failed counts a failure. Another operation than before starts afresh.
func (r *retry) failed(k kind, now time.Time) {
	if r.kind != k {
		*r = retry{kind: k}
	}
	most := mostDelay
	if k == doNothing {
		most = mostClaimDelay
	}
	r.delay = min(max(2*r.delay, firstDelay), most)
	r.at = now.Add(r.delay)
}

// until is until when an operation is held back.
func (r *retry) until(k kind) time.Time {
	if r.kind != k {
		return time.Time{}
	}
	return r.at
}

// podState is a pod that was given to Prepare or Release, or found on disk.
type podState struct {
	unit // for what is done to the whole pod
	uid  types.UID
	// pod is what Prepare was called with last; nil if it was not.
	pod *v1.Pod
	// releasing tells that Release was called, and Prepare not since.
	releasing bool
	// looked tells that the sub paths are gone and that the volumes on disk are known.
	looked  bool
	volumes map[volumeKey]*volumeState
	// names are the volumes that the pod uses, by their names in its spec.
	names map[string]*nameState
	order []string
	// awaited tells that a Prepare has returned while something was missing.
	awaited bool
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
	plugin volume.Plugin // nil if there is none of this name any more
	spec   *volume.Spec  // nil if it was only found on disk
	inside []string
	// remounts is what the plugin's Remounts says, objects what its Objects says.
	remounts bool
	objects  []volume.Object
	shared   *sharedState
	// expands tells that the plugin can make it larger.
	expands bool
	// label is the SELinux label to mount it with, asks the one that its pod needs, which is
	// the same for a volume of one pod.
	label, asks string
	// unknown tells that it may be shared, and of what is not known.
	unknown bool

	// wanted tells that its pod uses it; of a pod that is released none is.
	wanted      bool
	requestedAt time.Time
	state       State
	since       time.Time
	mounted     volume.Mounted
	found       bool
	remount     bool
	refreshAt   time.Time
	queued      bool
	// expandedTo is the size to which it was expanded, for one that is not shared.
	expandedTo int64
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

// listState is the listing of what a Stager has staged.
type listState struct {
	unit
	plugin volume.Plugin
	done   bool
}

func newWorld(plugins []volume.Plugin, limit time.Duration) *world {
	w := &world{
		limit: limit,
		pods:  map[types.UID]*podState{}, shared: map[volume.ID]*sharedState{}, lists: map[string]*listState{},
		objects: map[volume.Object]set[*volumeState]{}, claimed: map[claimKey]set[*volumeState]{},
		unknown: map[string]int{}, unread: set[types.UID]{}, changed: set[types.UID]{},
		due: run.NewHeap(
			func(a, b actor) bool { return a.base().due.Before(b.base().due) },
			func(a actor) *run.Place { return &a.base().place },
		),
	}
	for _, p := range plugins {
		if _, ok := p.(volume.Stager); ok {
			l := &listState{plugin: p}
			w.lists[p.Name()] = l
			w.touch(l)
		}
	}
	return w
}

// touch has an actor looked at.
func (w *world) touch(a actor) {
	if u := a.base(); !u.dirty {
		u.dirty = true
		w.dirty = append(w.dirty, a)
	}
}

// touchPod has all volumes of a pod looked at, and the pod.
func (w *world) touchPod(p *podState) {
	w.touch(p)
	for _, v := range p.volumes {
		w.touch(v)
	}
}

// touchShared has a shared volume looked at, and all that wait for it.
func (w *world) touchShared(s *sharedState) {
	if s == nil {
		return
	}
	w.touch(s)
	for v := range s.users {
		w.touch(v)
	}
}

// touchAllShared has all shared volumes looked at: it is known of all that are on the disk,
// or is not any more, who uses them.
func (w *world) touchAllShared() {
	for _, s := range w.shared {
		w.touch(s)
	}
}

// name is the pod's for people.
func (p *podState) name() string {
	if p.pod == nil {
		return string(p.uid)
	}
	return p.pod.Namespace + "/" + p.pod.Name + " (" + string(p.uid) + ")"
}
