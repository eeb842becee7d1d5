package fs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/podwright/podwright/internal/run"
)

// Pauses between two watches.
const watchPauseMin, watchPauseMax = time.Second, 20 * time.Second

// WatchFunc watches files until ctx is done or it fails. It calls changed at the start and after
// each possible change; changed never blocks. It always returns a non-nil error. An error that
// wraps errors.ErrUnsupported is final.
type WatchFunc func(ctx context.Context, changed func(Hint)) error

// Watch adds the hints of a watch until ctx is done. It restarts a watch that fails.
func (h *Hints) Watch(ctx context.Context, watch WatchFunc, log *slog.Logger) {
	pause := watchPauseMin
	for {
		started := time.Now()
		err := watch(ctx, h.Add)
		if ctx.Err() != nil {
			return
		}
		h.Reset()
		if errors.Is(err, errors.ErrUnsupported) {
			log.Info("files are not watched, only read periodically")
			return
		}
		if time.Since(started) > watchPauseMax {
			pause = watchPauseMin
		}
		log.Debug("watch on files ended", "err", err, "retryIn", pause)
		if !run.Sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, watchPauseMax)
	}
}

// Wait returns true after limit, or once there is a prompt and rest has passed, and false when
// ctx is done.
func (h *Hints) Wait(ctx context.Context, limit time.Duration, rest func() time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case <-h.Prompt:
		return run.Sleep(ctx, max(rest(), 0))
	}
}

// Tree is a watched folder or file.
type Tree struct {
	Root string
	// Below returns folders in Root to watch as well. It is called again when a folder may have
	// been created. Optional.
	Below func() []string
	// Ignore reports whether a name in a folder causes no hints. Optional.
	Ignore func(name string) bool
}

// NoWatch is a WatchFunc that does not watch.
func NoWatch(context.Context, func(Hint)) error { return errors.ErrUnsupported }
