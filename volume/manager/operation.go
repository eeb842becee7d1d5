package manager

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume"
)

// kind is what an operation does.
type kind uint8

const (
	doNothing kind = iota
	doMount
	doUnmount
	doExpand
	// The next are done for a volume that pods share.
	doVerify
	doStage
	doUnstage
	// The next are done for a whole pod: doScan unmounts its sub paths and reads its
	// folders, doFinish removes its empty folders.
	doScan
	doFinish
	// doRead looks at the disk only, at the start of an agent.
	doRead
	// doList needsLabel a Stager what it has staged.
	doList
)

// String says what runs.
func (k kind) String() string {
	return [...]string{
		"", "mount", "unmount", "expand", "verify that it is attached", "stage", "unstage",
		"unmount sub paths", "remove folders", "read what is on disk", "list what is staged",
	}[k]
}

// metric is the operation's name in metrics: that of the upstream kubelet where it has
// the operation.
func (k kind) metric(block bool) string {
	if block {
		switch k {
		case doMount:
			return "map_volume"
		case doUnmount:
			return "unmap_volume"
		case doUnstage:
			return "unmap_device"
		}
	}
	return [...]string{
		"", "volume_mount", "volume_unmount", "volume_fs_resize", "verify_controller_attached_volume", "mount_device", "unmount_device",
		"unmount_subpaths", "remove_folders", "read_disk", "list_staged",
	}[k]
}

// operation is one that runs. What it works on is a copy, so that it needs no lock.
type operation struct {
	kind   kind
	on     item
	name   string // for people
	plugin volume.Plugin
	block  bool
	began  time.Time
	// stuckAt is when it has had time enough, stuck that it had and still runs.
	stuckAt time.Time
	stuck   bool
	// outdated tells that its pod was wanted since it began, so that a release has to look
	// again: containers may have got sub paths.
	outdated bool
	// again tells that it is the mount of a mounted volume.
	again     bool
	forced    bool // see Operation.Forced
	refreshes bool // it has a refresh slot
	// first is when the volume was asked for, if it is a first mount.
	first time.Time
	pod   *v1.Pod
	uid   types.UID

	mount   volume.Mount
	unmount volume.Unmount
	stage   volume.Stage
	id      volume.ID
	spec    *volume.Spec
	staged  string
	size    int64
	grown   int64 // what it was expanded to before

	// ctx is its context, and cancel ends that. They are the shell's.
	ctx    context.Context
	cancel context.CancelFunc
}

// String is "mount since 2026-01-02T15:04:05Z".
func (o *operation) String() string {
	return o.kind.String() + " since " + o.began.Format(time.RFC3339)
}

// pluginName is also that of a plugin that this agent does not have.
func (o *operation) pluginName() string {
	if v, ok := o.on.(*volumeState); ok {
		return v.key.plugin // it is never changed
	}
	return o.plugin.Name()
}

// outcome is what has become of an operation.
type outcome struct {
	err error
	// ended tells that the operation's context had ended: a plugin that says no more
	// than that does not know what it has left.
	ended   bool
	mounted volume.Mounted // mount
	path    string         // stage
	device  string         // verify
	attach  bool           // verify: it has to be attached
	size    int64          // expand: how large the volume is, if that is known
	grown   bool           // expand: it has become larger
	found   []found        // look
	ids     []string
}

// outcomes of a failed mount or stage.
func (o *outcome) uncertain() bool {
	return errors.Is(o.err, volume.ErrUncertain) || !errors.Is(o.err, volume.ErrTransient) && o.ended
}

func (o *outcome) transient() bool { return errors.Is(o.err, volume.ErrTransient) }

// after is the state of something whose mount, or stage, has this outcome. A final
// failure leaves nothing, except of what was found on disk: others have made that.
func (o *outcome) after(before State, found bool) State {
	switch {
	case o.err == nil:
		return StateMounted
	case o.uncertain():
		return StateUncertain
	case o.transient() || found:
		return before
	}
	return StateNotMounted
}

// operationGrace is how long an operation may take to return after its context has ended,
// before it counts as stuck.
const operationGrace = time.Second

// begin makes the operation that next has decided on.
func (rc *reconciler) begin(a item, k kind, now time.Time) *operation {
	op := &operation{kind: k, on: a, began: now, stuckAt: now.Add(rc.limit + operationGrace)}
	a.base().op = op
	switch a := a.(type) {
	case *podState:
		op.uid, op.name = a.uid, k.String()+" of pod "+a.name()
	case *volumeState:
		rc.beginVolume(a, op)
	case *sharedState:
		op.name = k.String() + " of volume " + a.id.String()
		op.plugin, op.id, op.spec, op.staged = a.plugin, a.id, a.spec, a.path
		op.block = a.spec != nil && a.spec.Block()
		op.stage = volume.Stage{ID: a.id.Volume, Spec: a.spec, DevicePath: a.devicePath, Found: a.found || !rc.lists[a.id.Plugin].done}
		if user := a.user(k); user != nil {
			op.pod, op.uid, op.size = user.pod.pod, user.pod.uid, user.toExpand()
			op.stage.FSGroup, op.stage.SELinuxLabel = fsGroup(user.pod.pod), user.label
			if k == doStage {
				a.label = user.label
			}
			op.mount.Pod, op.unmount, op.grown = user.pod.pod, user.unmount(), a.expandedTo
		}
	case *listState:
		op.plugin, op.name = a.plugin, k.String()+" by "+a.plugin.Name()
	}
	rc.touchNear(a)
	return op
}

func (rc *reconciler) beginVolume(v *volumeState, op *operation) {
	op.plugin, op.block, op.uid, op.pod = v.plugin, v.key.block, v.pod.uid, v.pod.pod
	op.name = op.kind.String() + " of volume " + v.key.name + " of pod " + v.pod.name()
	op.spec, op.size, op.grown, op.unmount = v.spec, v.toExpand(), v.expandedTo, v.unmount()
	if v.shared != nil {
		op.staged = v.shared.path
	}
	if op.kind == doUnmount {
		v.set(StateUncertain, op.began) // from now on
		op.forced = v.unknown
	}
	if op.kind != doMount {
		return
	}
	op.mount = mountOf(v.pod.pod, v.spec)
	op.mount.Inside, op.mount.Staged = v.inside, op.staged
	op.mount.SELinuxLabel = v.label
	op.mount.Again, op.mount.Found = v.state == StateMounted, v.found || rc.unread.has(v.pod.uid)
	v.remount, v.refreshAt = false, time.Time{}
	if op.again = op.mount.Again; op.again {
		op.refreshes = true
		rc.slots.used++
	} else {
		op.first = v.requestedAt
	}
}

// user is a pod's volume for which something is done to a shared one: one to be expanded
// for, or the first that is wanted.
func (s *sharedState) user(k kind) *volumeState {
	if k == doExpand {
		return s.tooSmall()
	}
	return s.first()
}

func (v *volumeState) unmount() volume.Unmount {
	return volume.Unmount{Pod: v.pod.uid, Name: v.key.name, Block: v.key.block}
}

// markCancelled notes that the context of an operation has ended.
func (rc *reconciler) markCancelled(op *operation, now time.Time) {
	if at := now.Add(operationGrace); at.Before(op.stuckAt) {
		op.stuckAt = at
		rc.touch(op.on)
	}
}

// markStuck notes that an operation does not end. Others go on.
func (rc *reconciler) markStuck(op *operation) {
	op.stuck = true
	rc.endRefresh(op)
	rc.touchNear(op.on)
	if p, ok := op.on.(*podState); ok && rc.unread.has(p.uid) {
		rc.touchClaimed()
	}
}

// endRefresh frees the refresh slot of an operation.
func (rc *reconciler) endRefresh(op *operation) {
	if !op.refreshes {
		return
	}
	op.refreshes = false
	for _, v := range rc.slots.free() {
		rc.touch(v)
	}
}
