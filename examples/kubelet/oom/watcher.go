package oom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
)

// Device is the path of the kernel's log.
const Device = "/dev/kmsg"

// Config configures a Watcher. Log and OnKill are required.
type Config struct {
	// Log is the kernel's log, for example from Open. Each read returns one record; an error means
	// a lost record. Run closes Log, which must end a pending read. Required.
	Log io.ReadCloser
	// OnKill is called for each kill, in their order. It must not block. Required.
	OnKill func(Kill)
	// Logger receives the final failure to read the log. Default: discard.
	Logger *slog.Logger
}

// ErrAlreadyRun is returned by a second Run.
var ErrAlreadyRun = errors.New("oom: Run was called before")

// Watcher reports kills. Use New.
type Watcher struct {
	cfg Config
	ran atomic.Bool
}

// New returns a Watcher. It does nothing until Run.
func New(cfg Config) (*Watcher, error) {
	f := fields.Of("oom: Config")
	f.Required("Log", cfg.Log)
	f.Required("OnKill", cfg.OnKill)
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Watcher{cfg: cfg}, nil
}

// Open opens the kernel's log at its end. If kernel.dmesg_restrict is set, it needs root and always
// fails in a user namespace.
func Open() (io.ReadCloser, error) { return openEnd(Device) }

func openEnd(path string) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("kernel log: %w", err)
	}
	if _, err := file.Seek(0, io.SeekEnd); err != nil {
		return nil, errors.Join(fmt.Errorf("kernel log: %w", err), file.Close())
	}
	return file, nil
}

const (
	// maxRecord is above the kernel's maximum size of a record in bytes.
	maxRecord = 16 << 10
	// maxFailures is the number of failed reads in a row after which the Watcher gives up, and
	// pause the time between them. Overwritten records count as one failure.
	maxFailures, pause = 10, time.Second
)

// Run reads the log until ctx is done, then closes it and returns nil. If the log becomes
// unreadable, Run logs that and waits for ctx.
func (w *Watcher) Run(ctx context.Context) error {
	if w.ran.Swap(true) {
		return ErrAlreadyRun
	}
	closed := make(chan struct{})
	end := func() {
		defer close(closed)
		_ = w.cfg.Log.Close() // an error has no effect on a file that was only read
	}
	stop := context.AfterFunc(ctx, end)
	err := w.read(ctx)
	if ctx.Err() == nil {
		w.cfg.Logger.Error("cannot read the kernel log; out-of-memory kills are no longer reported", "err", err)
		<-ctx.Done()
	}
	if stop() { // AfterFunc did not run end, although ctx is done
		end()
	}
	<-closed
	return nil
}

// read parses records until reading fails permanently or the log is closed.
func (w *Watcher) read(ctx context.Context) error {
	var parser Parser
	record, failures := make([]byte, maxRecord), 0
	for {
		n, err := w.cfg.Log.Read(record)
		switch {
		case err == nil:
			failures = 0
			w.take(&parser, record[:n])
			continue
		case ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed):
			return err
		}
		parser.Reset()
		if failures++; failures > 1 && (failures > maxFailures || !run.Sleep(ctx, pause)) {
			return err
		}
	}
}

func (w *Watcher) take(parser *Parser, record []byte) {
	line, ok := text(record)
	if !ok {
		return
	}
	if kill, ok := parser.Line(line); ok {
		w.cfg.OnKill(kill)
	}
}
