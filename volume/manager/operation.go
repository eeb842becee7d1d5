package manager

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume"
)

type kind uint8

const (
	doNothing kind = iota
	doMount
	doUnmount
	doExpand
	// For a shared volume.
	doVerify
	doStage
	doUnstage
	// For a pod: doScan unmounts its sub paths and reads its folders, doFinish removes its
	// empty folders.
	doScan
	doFinish
	// doRead reads a pod's folders at the start of an agent.
	doRead
	// doList lists the staged volumes of a Stager.
	doList
)

func (k kind) String() string {
	return [...]string{
		"", "mount", "unmount", "expand", "verify attachment", "stage", "unstage",
		"unmount sub paths", "remove folders", "read the disk", "list staged volumes",
	}[k]
}

// step returns upstream's name for the operation in messages.
func (k kind) step(block bool) string {
	steps := map[kind][2]string{ // for a file system, for a device
		doMount:   {"MountVolume.SetUp", "MapVolume.MapPodDevice"},
		doUnmount: {"UnmountVolume.TearDown", "UnmapVolume.UnmapPodDevice"},
		doExpand:  {"NodeExpandVolume.NodeExpandVolume", "NodeExpandVolume.NodeExpandVolume"},
		doVerify:  {"MountVolume.WaitForAttach", "MapVolume.WaitForAttach"},
		doStage:   {"MountVolume.MountDevice", "MapVolume.SetUpDevice"},
		doUnstage: {"UnmountDevice", "UnmapDevice.TearDownDevice"},
	}
	switch names, ok := steps[k]; {
	case ok && block:
		return names[1]
	case ok:
		return names[0]
	}
	return k.String()
}

// metric returns the operation's name in metrics, equal to upstream's if upstream has the
// operation.
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

// operation is a running operation. Its inputs are copies, so that it needs no lock.
type operation struct {
	kind   kind
	on     item
	name   string // for people
	plugin volume.Plugin
	block  bool
	began  time.Time
	// stuckAt is the time at which the operation counts as stuck. stuck is true if it still
	// runs after that.
	stuckAt time.Time
	stuck   bool
	// outdated is true if the pod was prepared after the operation began. A release must then
	// scan again, because containers may have new sub paths.
	outdated  bool
	again     bool
	forced    bool // see Operation.Forced
	refreshes bool // it has a refresh slot
	// first is the time of the volume's request. It is set for a first mount.
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
	grown   int64 // size of the previous expansion

	// ctx and cancel belong to the shell.
	ctx    context.Context
	cancel context.CancelFunc
}

// String returns the kind and the start: "mount since 2026-01-02T15:04:05Z".
func (o *operation) String() string {
	return o.kind.String() + " since " + o.began.Format(time.RFC3339)
}

// pluginName returns the plugin's name, also if the agent lacks the plugin.
func (o *operation) pluginName() string {
	if v, ok := o.on.(*volumeState); ok {
		return v.key.plugin // immutable
	}
	return o.plugin.Name()
}

type outcome struct {
	err error
	// ended is true if the operation's context had ended. An unmarked error of the plugin then
	// counts as uncertain.
	ended   bool
	mounted volume.Mounted // mount
	path    string         // stage
	device  string         // verify
	attach  bool           // verify: the volume must be attached
	size    int64          // expand: the size, or zero if unknown
	grown   bool           // expand: the volume has grown
	found   []found        // read, scan, finish
	ids     []string
}

// uncertain reports whether a failed mount or stage may have taken effect.
func (o *outcome) uncertain() bool {
	return errors.Is(o.err, volume.ErrUncertain) || !errors.Is(o.err, volume.ErrTransient) && o.ended
}

func (o *outcome) transient() bool { return errors.Is(o.err, volume.ErrTransient) }

// after returns the state after a mount or stage. After a final failure there are no remains,
// except of a volume that was found on the disk: an earlier agent mounted it.
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

// operationGrace is the time after the end of its context at which an operation counts as
// stuck.
const operationGrace = time.Second

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
	rc.touchDependents(a)
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
		v.set(StateUncertain, op.began) // until the outcome
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

// user returns the pod's volume for which an operation on a shared volume runs: a mount with a
// pending expansion, or the first user.
func (s *sharedState) user(k kind) *volumeState {
	if k == doExpand {
		return s.tooSmall()
	}
	return s.first()
}

func (v *volumeState) unmount() volume.Unmount {
	return volume.Unmount{Pod: v.pod.uid, Name: v.key.name, Block: v.key.block}
}

// markCancelled records that the context of an operation was cancelled.
func (rc *reconciler) markCancelled(op *operation, now time.Time) {
	if at := now.Add(operationGrace); at.Before(op.stuckAt) {
		op.stuckAt = at
		rc.touch(op.on)
	}
}

// markStuck records that an operation is stuck, so that others proceed.
func (rc *reconciler) markStuck(op *operation) {
	op.stuck = true
	rc.endRefresh(op)
	rc.touchDependents(op.on)
	if p, ok := op.on.(*podState); ok && rc.unread.has(p.uid) {
		rc.touchClaimed()
	}
}

func (rc *reconciler) endRefresh(op *operation) {
	if !op.refreshes {
		return
	}
	op.refreshes = false
	for _, v := range rc.slots.free() {
		rc.touch(v)
	}
}
