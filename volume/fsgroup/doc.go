// Package fsgroup gives the files of a volume to a group, as a pod's fsGroup asks for:
// safely while containers of other pods move the same files around.
package fsgroup

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Change says what to change.
type Change struct {
	// Group is the ID of the group that the files get.
	Group int64
	// Policy says whether it is enough that the volume's folder is right
	// (OnRootMismatch); nil means that everything is looked at (Always).
	Policy *v1.PodFSGroupChangePolicy
	// ReadOnly gives the group no right to write.
	ReadOnly bool
	// Progress, if not nil, is told how many files have been looked at when it takes
	// long: after 30 seconds and then each minute.
	Progress func(files int)
}

const (
	firstProgress = 30 * time.Second
	nextProgress  = time.Minute
)
