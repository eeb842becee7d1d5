package fs

import "errors"

// ErrLocked is wrapped by the error of TryLock for a file that is locked.
var ErrLocked = errors.New("the file is locked")
