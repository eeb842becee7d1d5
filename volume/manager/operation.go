package manager

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume"
)

// operation is one that runs. What it works on is a copy, so that it needs no lock.
type operation struct {
	kind   kind
	on     actor
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
	refreshes bool // it counts in world.refreshing
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

// found is a volume on disk.
type found struct {
	key    volumeKey
	plugin volume.Plugin // nil if there is none of this name
	// shared is the ID of the volume if it is shared; unknown tells that it may be.
	shared  string
	unknown bool
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
