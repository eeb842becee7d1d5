package ownership

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Config configures Apply and ApplyFile.
type Config struct {
	// Group is the group for all entries.
	Group int64
	// Policy OnRootMismatch skips the walk if the root has the group and the modes. Nil and all
	// other policies mean always.
	Policy *v1.PodFSGroupChangePolicy
	// ReadOnly withholds write permission from the group.
	ReadOnly bool
	// Chown changes owners. Default: the function Chown.
	Chown ChownFunc
	// OnError is called for each entry that could not be changed, with its path below the
	// volume. The walk continues. Optional.
	OnError func(path string, err error)
	// OnProgress is called with the number of visited entries during a long walk: first after
	// 30 s, then every 60 s. Optional.
	OnProgress func(entries int)
}

const firstProgress, nextProgress = 30 * time.Second, 60 * time.Second

// ChownFunc changes the owner of an open file. The file may be a symbolic link, and fd may have
// been opened with O_PATH. The id -1 leaves the user or group as it is. path is the path below
// the volume, for messages.
type ChownFunc func(fd int, path string, uid, gid int) error

// Result is the result of a walk.
type Result struct {
	// Skipped is true if the root was correct and the walk was skipped (OnRootMismatch).
	Skipped bool
	// Changed and Failed count entries.
	Changed, Failed int
	// Err joins the first five errors of entries. It is nil if no entry failed.
	Err error
}
