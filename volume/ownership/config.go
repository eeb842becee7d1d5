package ownership

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Config says what Apply does.
type Config struct {
	// Group is the group that everything gets.
	Group int64
	// Policy OnRootMismatch leaves everything as it is when the root has the group and
	// the modes already; nil and every other policy means always.
	Policy *v1.PodFSGroupChangePolicy
	// ReadOnly gives the group no right to write.
	ReadOnly bool
	// Chown changes owners; nil means Chown of this package.
	Chown ChownFunc
	// OnError is called for each entry that stays as it is, with its path below the
	// volume. The walk goes on. nil means that nobody wants to know.
	OnError func(path string, err error)
	// OnProgress is called with how many entries were looked at when a walk takes long:
	// first after 30 s, then each 60 s. nil means that nobody wants to know.
	OnProgress func(entries int)
}

const firstProgress, nextProgress = 30 * time.Second, 60 * time.Second

// ChownFunc changes the owner of what a descriptor names, which may be a symbolic link
// and may have been opened with O_PATH. -1 leaves an ID as it is. path is where it is
// below the volume, for messages.
type ChownFunc func(fd int, path string, uid, gid int) error

// Result is what a walk has done.
type Result struct {
	// Skipped tells that the root was right and nothing was looked at (OnRootMismatch).
	Skipped bool
	// Changed and Failed count entries.
	Changed, Failed int
	// Err joins the first few of what OnError was told; nil if there was nothing.
	Err error
}
