//go:build !linux

package objects

import "context"

func watchTree(ctx context.Context, path string, changed func(Hint)) error {
	return NoWatch(ctx, path, changed)
}
