package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/examples/kubelet/lockfile"
	"github.com/podwright/podwright/internal/run"
)

// locked runs f while this process has the lock file, or without a lock if none is configured. With
// --exit-on-lock-contention it ends f, without an error, as soon as another process requests the
// lock.
func locked(ctx context.Context, flags *config.Flags, log *slog.Logger, f func(context.Context) error) error {
	if flags.LockFile == "" {
		return f(ctx)
	}
	lock, err := lockfile.Acquire(ctx, flags.LockFile)
	if err != nil {
		return fmt.Errorf("--lock-file: %w", err)
	}
	defer lock.Close()
	if !flags.ExitOnLockContention {
		return f(ctx)
	}
	return run.All(ctx, f, func(ctx context.Context) error {
		err := lock.Contended(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("--exit-on-lock-contention: %w", err)
		}
		log.Info("another process waits for the lock file; exiting", "file", flags.LockFile)
		return nil
	})
}
