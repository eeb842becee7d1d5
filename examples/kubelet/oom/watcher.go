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

// Device is where the kernel's log is.
const Device = "/dev/kmsg"

// Config configures a Watcher. OnKill and Log are required.
type Config struct {
	// Log is the kernel's log, such as Open returns it: each read gives one record, and an error
	// one that was lost. Run closes it, which ends a read. Required.
	Log io.ReadCloser
	// OnKill is told of each kill, in their order. It must not block. Required.
	OnKill func(Kill)
	// Logger is told when the log cannot be read any longer. nil discards.
	Logger *slog.Logger
}

// ErrAlreadyRun is returned by a second Run.
var ErrAlreadyRun = errors.New("oom: Run was called before")

// Watcher tells of kills. Use New.
type Watcher struct {
	cfg Config
	ran atomic.Bool
}

// New returns a Watcher that does nothing until Run.
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

// Open opens the kernel's log at its end. It takes root where kernel.dmesg_restrict is set,
// and is never permitted then in a user namespace.
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
	// maxRecord is more than the kernel puts into a record.
	maxRecord = 16 << 10
	// maxFailures is how many reads in a row may fail until the log counts as gone, and pause
	// what lies between them. Records that were overwritten before they were read are one failure.
	maxFailures, pause = 10, time.Second
)

// Run reads the log until ctx ends, then closes it and returns nil. A log that cannot be read any
// longer is no reason to return: that is logged.
func (w *Watcher) Run(ctx context.Context) error {
	if w.ran.Swap(true) {
		return ErrAlreadyRun
	}
	closed := make(chan struct{})
	end := func() {
		defer close(closed)
		_ = w.cfg.Log.Close() // of a file that was only read
	}
	stop := context.AfterFunc(ctx, end)
	err := w.read(ctx)
	if ctx.Err() == nil {
		w.cfg.Logger.Error("the kernel's log is not read any longer: nobody will tell when memory runs out", "err", err)
		<-ctx.Done()
	}
	if stop() { // it has not begun, though ctx has ended
		end()
	}
	<-closed
	return nil
}

// read reads until reading fails for good, or because the log was closed.
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
