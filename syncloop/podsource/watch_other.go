//go:build !linux

package podsource

import "context"

// watchPath cannot watch here; the files are read periodically.
func watchPath(ctx context.Context, path string, changed func(Hint)) error {
	return NoWatch(ctx, path, changed)
}
