package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/podwright/podwright/cri"
)

// rotating is a rotator's state of one container. One worker uses it at a time.
type rotating struct {
	*Rotator
	id        string
	requested bool
	path      string // "" if it has no log
	// settled is true if the runtime is certain to write to the file at path.
	settled bool
}

func (k *rotating) check(ctx context.Context) error {
	if err := k.findPath(ctx); err != nil || k.path == "" {
		return err
	}
	size, err := k.size(ctx)
	if err != nil {
		return err
	}
	if err := k.settle(ctx); err != nil {
		return err
	}
	if size < k.cfg.MaxSize {
		return nil
	}
	rotated, err := k.rotate(ctx)
	if k.cfg.OnRotate != nil {
		k.cfg.OnRotate(Rotation{ContainerID: k.id, Path: k.path, Rotated: rotated, Size: size, Err: err})
	}
	return err
}

// findPath requests the log's path once.
func (k *rotating) findPath(ctx context.Context) error {
	if k.requested {
		return nil
	}
	reply, err := k.cfg.Runtime.ContainerStatus(ctx, k.id, false)
	if cri.IsNotFound(err) {
		return nil // removed since the listing
	}
	if err != nil {
		return fmt.Errorf("get the path of the log: %w", err)
	}
	k.requested, k.path = true, reply.GetStatus().GetLogPath()
	return nil
}

// size returns the size of the log. If the log is missing, as after a crash between rename and
// reopen, it first makes the runtime reopen it.
func (k *rotating) size(ctx context.Context) (int64, error) {
	info, err := os.Lstat(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := k.reopen(ctx); err != nil {
			return 0, err
		}
		info, err = os.Lstat(k.path)
	}
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is not a regular file", k.path)
	}
	return info.Size(), nil
}

// settle makes the runtime reopen the log if it may still write to a rotated file. That happens if
// the runtime failed to reopen the log, or a crash prevented the request, and another process
// created a new file at path.
func (k *rotating) settle(ctx context.Context) error {
	if k.settled {
		return nil
	}
	list, err := listRotated(k.path)
	if err != nil {
		return err
	}
	if n := len(list); n > 0 && !list[n-1].gz && k.writer(list[n-1].name) != writerClosed {
		if err := k.reopen(ctx); err != nil {
			return err
		}
	}
	k.settled = true
	return nil
}

// writer reports whether a process can write to a file beside the log.
func (k *rotating) writer(name string) writer {
	file, err := openPlain(filepath.Join(filepath.Dir(k.path), name))
	if err != nil {
		return writerUnknown
	}
	defer file.Close()
	return writerOf(file)
}

func (k *rotating) reopen(ctx context.Context) error {
	if err := k.cfg.Runtime.ReopenContainerLog(ctx, k.id); err != nil {
		return fmt.Errorf("reopen the log: %w", err)
	}
	return nil
}

// rotate cleans up, renames the log and makes the runtime reopen it. It returns the log's new
// name. Errors with old files do not stop it, because the log would continue to grow.
func (k *rotating) rotate(ctx context.Context) (rotated string, err error) {
	cleanErr := k.clean(ctx)
	if err := ctx.Err(); err != nil {
		return "", err
	}
	list, err := listRotated(k.path)
	if err != nil {
		return "", errors.Join(cleanErr, err)
	}
	rotated = k.path + "." + nextStamp(list, time.Now())
	if err := renameNew(k.path, rotated); err != nil {
		return "", errors.Join(cleanErr, err)
	}
	k.settled = false
	if err := k.reopen(ctx); err != nil {
		back, err := k.back(rotated, err)
		if back {
			rotated = ""
		}
		return rotated, errors.Join(cleanErr, err)
	}
	k.settled = true
	return rotated, cleanErr
}

// back restores a log's name after the runtime failed to reopen it. If the new file exists, the
// runtime may be writing to it, so both files stay. settle finds out in the next round which file
// is in use.
func (k *rotating) back(rotated string, cause error) (bool, error) {
	err := renameNew(rotated, k.path)
	if errors.Is(err, fs.ErrExist) {
		return false, cause
	}
	return err == nil, errors.Join(cause, err)
}

// clean removes and compresses old files, so that at most MaxFiles remain, including the log and
// the file that it is about to be renamed to.
func (k *rotating) clean(ctx context.Context) error {
	dir := filepath.Dir(k.path)
	names, err := namesIn(dir)
	if err != nil {
		return err
	}
	plan := planCleanup(filepath.Base(k.path), names, k.cfg.MaxFiles-2)
	var problems []error
	for _, name := range plan.remove {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
		}
	}
	for _, name := range plan.compress {
		if k.writer(name) == writerOpen {
			continue // it is incomplete; the next rotation compresses it
		}
		if err := compress(ctx, filepath.Join(dir, name)); err != nil {
			problems = append(problems, fmt.Errorf("compress %s: %w", name, err))
		}
	}
	return errors.Join(problems...)
}
