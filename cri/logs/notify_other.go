//go:build !linux

package logs

import (
	"context"
	"errors"
	"fmt"
)

// notify fails: only Linux has inotify.
func notify(context.Context, func(folders), func([]change)) error {
	return fmt.Errorf("inotify: %w", errors.ErrUnsupported)
}
