package fs

import (
	"errors"

	"github.com/podwright/podwright/internal/run"
)

// CheckBubble returns an error in a synctest bubble unless noWatch, the field NoWatch of a
// configuration, is true. A test would hang there until its timeout.
func CheckBubble(noWatch bool) error {
	if noWatch || !run.InBubble() {
		return nil
	}
	return errors.New("NoWatch must be true in a synctest bubble, whose clock stops while a goroutine waits for inotify")
}
