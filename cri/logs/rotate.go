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

// rotating is what a rotator knows of a container. One worker uses it at a time.
type rotating struct {
	*Rotator
	id    string
	asked bool
	path  string // "" if it has no log
	// settled: the runtime is known to write to the file that the path names.
	settled bool
}

// look rotates the container's log if that is due.
func (k *rotating) look(ctx context.Context) error {
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

// findPath asks once where the log is.
func (k *rotating) findPath(ctx context.Context) error {
	if k.asked {
		return nil
	}
	reply, err := k.cfg.Runtime.ContainerStatus(ctx, k.id, false)
	if cri.IsNotFound(err) {
		return nil // gone since it was listed
	}
	if err != nil {
		return fmt.Errorf("asking for the path of the log: %w", err)
	}
	k.asked, k.path = true, reply.GetStatus().GetLogPath()
	return nil
}

// size returns the size of the log. A log that is missing, as after a crash
// between rename and reopen, the runtime is told to open anew.
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

// settle sees to it that the runtime does not write to a rotated file. It does
// when it could not reopen the log, or when it was not told to because of a crash,
// and somebody else has made a new file under the path.
func (k *rotating) settle(ctx context.Context) error {
	if k.settled {
		return nil
	}
	list, err := listRotated(k.path)
	if err != nil {
		return err
	}
	if n := len(list); n > 0 && !list[n-1].gz && k.writer(list[n-1].name) != writerGone {
		if err := k.reopen(ctx); err != nil {
			return err
		}
	}
	k.settled = true
	return nil
}

// writer tells who can write to a file beside the log.
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
		return fmt.Errorf("reopening the log: %w", err)
	}
	return nil
}

// rotate makes room, puts the log aside and has the runtime begin a new one. It
// returns the name that the log has then. Trouble with old files does not keep it
// from that: without, the log would grow on.
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

// back gives a log its name back after the runtime did not reopen it. A runtime
// that failed after it had begun the new file keeps that: it may be writing to it.
// Which of the two it is, settle finds out in the next round.
func (k *rotating) back(rotated string, cause error) (bool, error) {
	err := renameNew(rotated, k.path)
	if errors.Is(err, fs.ErrExist) {
		return false, cause
	}
	return err == nil, errors.Join(cause, err)
}

// clean removes and compresses old files, so that with the log and what it is
// about to be renamed to there are not more than MaxFiles.
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
		if k.writer(name) == writerThere {
			continue // not all of it is there yet; the next rotation comes by
		}
		if err := compress(ctx, filepath.Join(dir, name)); err != nil {
			problems = append(problems, fmt.Errorf("compressing %s: %w", name, err))
		}
	}
	return errors.Join(problems...)
}
