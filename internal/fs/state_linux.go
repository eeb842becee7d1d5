package fs

import (
	"golang.org/x/sys/unix"
)

// StateOf returns the state of a file after an event.
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
