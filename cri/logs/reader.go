package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/podwright/podwright/internal/fields"
)

const (
	// pollPeriod is the period of checks of followed logs that the notifier does not watch, and of
	// requests of their containers' states.
	pollPeriod      = time.Second
	shutdownTimeout = 10 * time.Second
)

// ReaderConfig configures a Reader. The zero value is valid.
type ReaderConfig struct {
	// States reports whether the containers of followed logs are running. RuntimeStates reads this
	// from a runtime. Default nil: following continues until the context ends.
	States States
	// Logger receives problems with watching and following logs. Nil discards.
	Logger *slog.Logger
}

// Reader reads and follows logs. All followers share one poller and one inotify instance, which
// are closed with the last follower. It is safe for concurrent use.
type Reader struct {
	cfg     ReaderConfig
	buffers sync.Pool
	// Replaced in tests.
	period   time.Duration
	notify   notifyFunc
	writerOf func(*os.File) writer

	mu     sync.Mutex
	poller *poller // nil without followers
}

// Log is the log of one container instance.
type Log struct {
	// Path is the log's path: log_path in the container's status. It may be a symbolic link.
	// Required.
	Path string
	// ContainerID is the ID for States, without the runtime's name as prefix. If empty, the
	// container counts as running.
	ContainerID string
}

// NewReader returns a Reader.
func NewReader(cfg ReaderConfig) (*Reader, error) {
	fields.Logger(&cfg.Logger)
	r := &Reader{cfg: cfg, period: pollPeriod, notify: notify, writerOf: writerOf}
	r.buffers.New = func() any { return new(buffers) }
	return r, nil
}

// Read writes the container's output to stdout and stderr, which may be the same writer. A nil
// writer drops its stream. Read joins lines that the runtime has split. It skips lines in an
// unknown format, and an unterminated last line whose prefix is incomplete. A JSON line of docker
// ends the call with an error that wraps ErrDockerLine. Each writer first receives a Write of zero
// bytes, so that the headers of a response are sent even without a line.
//
// Read returns at the current end of the file. With Options.Follow it continues, across rotations,
// until the container has stopped and all its output is read. A line that is written in two pieces
// appears once it is complete. Files rotated before the call are not read. In the middle of a
// rotation, when the log is missing, the newest uncompressed rotated file replaces it.
//
// The error contains the path, except for invalid options. It wraps
// fs.ErrNotExist if the log does not exist, the context's error if the context ended, also while
// following, and the error of a writer.
func (r *Reader) Read(ctx context.Context, log Log, o Options, stdout, stderr io.Writer) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	p := newPrinter(o, time.Now(), stdout, stderr)
	defer func() {
		if err != nil {
			err = fmt.Errorf("reading log %s: %w", log.Path, err)
		}
	}()
	path, err := resolve(log.Path)
	if err != nil {
		return err
	}
	rd := &reading{reader: r, path: path, container: log.ContainerID}
	rd.splitter.to = p
	if rd.segment, err = openStart(path); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rd.segment.close()) }()
	if err := rd.tail(ctx, o.TailLines); err != nil {
		return err
	}
	if err := p.begin(); err != nil {
		return err
	}
	if o.Follow {
		return rd.follow(ctx)
	}
	return rd.pump(ctx, true)
}

// resolve resolves the links of a path. Its last element may be missing.
func resolve(path string) (string, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err == nil {
		return resolved, nil
	}
	dir, dirErr := filepath.EvalSymlinks(filepath.Dir(path))
	if dirErr != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}
