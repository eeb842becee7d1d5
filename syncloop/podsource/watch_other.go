//go:build !linux

package podsource

import (
	"context"
	"errors"
)

// watchPath cannot watch here; the files are read periodically.
func watchPath(context.Context, string, func(Hint)) error { return errors.ErrUnsupported }
