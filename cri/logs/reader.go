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
	// pollPeriod is the period of looks at followed logs that the notifier does not
	// watch, and of requests of the states of their containers.
	pollPeriod      = time.Second
	shutdownTimeout = 10 * time.Second
)

// ReaderConfig configures a Reader. The zero value is of use.
type ReaderConfig struct {
	// States tells when the containers whose logs are followed have stopped.
	// RuntimeStates asks a runtime. Default nil: they run until the context
	// ends.
	States States
	// Logger gets what keeps logs from being watched. nil: discarded.
	Logger *slog.Logger
}

// Reader reads logs and follows them. All followers share one poller and one inotify
// instance, which are closed with the last follower. It is safe for concurrent use.
type Reader struct {
	cfg     ReaderConfig
	buffers sync.Pool
	// Tests replace these.
	period   time.Duration
	notify   notifyFunc
	writerOf func(*os.File) writer

	mu     sync.Mutex
	poller *poller // nil without followers
}

// Log is the log of one instance of a container.
type Log struct {
	// Path is where the runtime writes it: log_path in the status of the
	// container. It may be a symbolic link. Required.
	Path string
	// ContainerID is what States is asked about, without the runtime's name in
	// front. Default (and meaning of ""): it counts as running.
	ContainerID string
}

// NewReader returns a Reader.
func NewReader(cfg ReaderConfig) (*Reader, error) {
	fields.Logger(&cfg.Logger)
	r := &Reader{cfg: cfg, period: pollPeriod, notify: notify, writerOf: writerOf}
	r.buffers.New = func() any { return new(buffers) }
	return r, nil
}

// Read writes what a container wrote to its two streams to stdout and stderr,
// which may be the same writer. A nil writer means that the stream is not wanted.
// Lines that the runtime has cut are joined; lines in no known format are left
// out, and so is a last line whose beginning is not complete. A JSON line of docker
// ends the call with an error that wraps ErrDockerLine. Each writer gets a
// Write of zero bytes first, so that the headers of a response go out even if no
// line comes.
//
// It reads what the file holds now; with Options.Follow it goes on, across
// rotations, until the container has stopped and all that it wrote is read. A
// line that is written in two pieces appears once it is whole. Files that were
// rotated before the call are not read, except that the newest uncompressed one
// stands in for a log that is missing, as it is in the middle of a rotation.
//
// The error contains the path. It wraps fs.ErrNotExist if there is no such log, the
// context's error if that ended, also while following, and the error of a writer.
func (r *Reader) Read(ctx context.Context, log Log, o Options, stdout, stderr io.Writer) (err error) {
	if err := o.Validate(); err != nil {
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
	if err := rd.tail(o.TailLines); err != nil {
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

// resolve follows the links of a path, whose last element may be missing.
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
