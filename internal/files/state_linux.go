package files

import (
	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/inotify"
)

// StateOf says what an event tells about the content of a file at a path.
func StateOf(path string, e inotify.Event) State {
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
