//go:build !linux

package fs

import "context"

// Watch returns an error that is errors.ErrUnsupported: only Linux has inotify.
func (t Tree) Watch(ctx context.Context, changed func(Hint)) error { return NoWatch(ctx, changed) }
