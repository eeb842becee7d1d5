package fs

import (
	"golang.org/x/sys/unix"
)

// StateOf says what an event tells about the content of a file at a path.
func StateOf(path string, e Event) State {
	switch {
	case e.Written():
		return Written
	case e.Mask&unix.IN_DELETE != 0:
		return Deleted
	case e.Writing(path):
		return Writing
	}
	return Changed
}
