package manager

import (
	"errors"

	"github.com/podwright/podwright/volume"
)

// Errors to test for.
var (
	// ErrAlreadyRun is returned by a second Run.
	ErrAlreadyRun = errors.New("volume: Run was called before")
	// ErrEnded is returned when Run has ended.
	ErrEnded = errors.New("volume: Run has ended")
	// ErrShutdownTimeout is wrapped by the error of Run when operations ignored that
	// their context has ended. They are named.
	ErrShutdownTimeout = errors.New("still running after the shutdown timeout")
	// ErrReleased is wrapped by the error of a Prepare during which the pod was released,
	// ErrPrepared by that of a Release during which it was prepared.
	ErrReleased = errors.New("it was released meanwhile")
	ErrPrepared = errors.New("it was prepared meanwhile")

	errGoexit = volume.Uncertain(errors.New("the plugin called runtime.Goexit"))
)
