package certificates

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/fs"
)

// ErrAlreadyRun is returned by a second Run.
var ErrAlreadyRun = errors.New("certificates: Run was called before")

const (
	// look is the period of checks for changed files.
	pollPeriod = time.Second
	// largest is the maximum size of a file in bytes.
	largest = 1 << 20
)

// readFile reads a regular file. It does not wait for the writer of a pipe.
func readFile(path string) ([]byte, error) {
	r := fs.Reader{MaxSize: largest}.Read(path, fs.Stamp{})
	switch {
	case r.Vanished, r.Dangling:
		return nil, fmt.Errorf("%s: %w", path, iofs.ErrNotExist)
	case r.Problem != "":
		return nil, fmt.Errorf("%s: %s", path, r.Problem)
	}
	return r.Data, nil
}

// Files follows files of other programs and keeps the value parsed from them. Use NewServing or
// NewAuthorities. Current is safe for concurrent use.
type Files[T any] struct {
	paths []string
	build func(contents [][]byte) (*T, error)
	log   *slog.Logger

	current atomic.Pointer[T]
	ran     atomic.Bool

	// Used by Run only.
	contents [][]byte
	stamps   []fs.Stamp
	failure  string
}

// newFiles reads the files. It fails if build cannot parse them.
func newFiles[T any](log *slog.Logger, build func([][]byte) (*T, error), paths ...string) (*Files[T], error) {
	fields.Logger(&log)
	f := &Files[T]{paths: paths, build: build, log: log, contents: make([][]byte, len(paths)), stamps: make([]fs.Stamp, len(paths))}
	return f, f.load()
}

// Current returns the value of the last successful parse.
func (f *Files[T]) Current() *T { return f.current.Load() }

// Run follows the files until ctx is done.
func (f *Files[T]) Run(ctx context.Context) error {
	if f.ran.Swap(true) {
		return ErrAlreadyRun
	}
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		before := f.Current()
		switch err := f.load(); {
		case err != nil && err.Error() != f.failure:
			f.failure = err.Error()
			f.log.Error("certificate not usable; continuing with the previous one", "err", err)
		case err == nil:
			f.failure = ""
			if f.Current() != before {
				f.log.Info("certificate changed", "files", f.paths)
			}
		}
	}
}

// load reads the files that have changed since the last successful parse. It repeats a failed
// parse each time, because the two files of a pair change one after the other.
func (f *Files[T]) load() error {
	reader := fs.Reader{MaxSize: largest, Youngest: 2 * pollPeriod}
	contents, stamps := make([][]byte, len(f.paths)), make([]fs.Stamp, len(f.paths))
	changed := f.Current() == nil
	for i, path := range f.paths {
		r := reader.Read(path, f.stamps[i])
		switch {
		case r.Vanished:
			return fmt.Errorf("%s: %w", path, iofs.ErrNotExist)
		case r.Problem != "":
			return fmt.Errorf("%s: %s", path, r.Problem)
		case r.Same:
			r.Data = f.contents[i]
		}
		contents[i], stamps[i] = r.Data, r.Stamp
		changed = changed || !bytes.Equal(r.Data, f.contents[i])
	}
	if changed {
		made, err := f.build(contents)
		if err != nil {
			return err
		}
		f.current.Store(made)
	}
	f.contents, f.stamps = contents, stamps
	return nil
}
