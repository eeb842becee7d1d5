package fake

import (
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/podwright/podwright/internal/run"
)

// maxLogLine is the length at which a log line is split, as in containerd.
const maxLogLine = 16 << 10

// logFile is a container's log, shared by its two streams. Its path can be reopened after a
// rotation.
type logFile struct {
	path string
	open func(path string) (io.WriteCloser, error)

	mu     sync.Mutex
	file   io.WriteCloser // nil: dropped
	closed bool
}

// begin opens the log; with an empty path all output is dropped.
func (l *logFile) begin(path string, open func(string) (io.WriteCloser, error)) (err error) {
	l.path, l.open = path, open
	if path != "" {
		l.file, err = l.openFile()
	}
	return err
}

// openFile calls Config.OpenLog. A panic becomes an error.
func (l *logFile) openFile() (file io.WriteCloser, err error) {
	err = run.Guard("Config.OpenLog", func() (err error) {
		file, err = l.open(l.path)
		return err
	})
	return file, err
}

// reopen switches to the file that the path names now.
func (l *logFile) reopen() error {
	if l.path == "" {
		return nil
	}
	file, err := l.openFile()
	if err != nil {
		return err
	}
	l.mu.Lock()
	old := l.file
	if l.closed {
		old = file
	} else {
		l.file = file
	}
	l.mu.Unlock()
	return closeLog(old)
}

func (l *logFile) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	return closeLog(l.file)
}

// closeLog closes a file of OpenLog. A panic becomes an error.
func closeLog(file io.WriteCloser) error {
	if file == nil {
		return nil
	}
	return run.Guard("Close of a log file from Config.OpenLog", file.Close)
}

// line writes one line. It ignores errors: a full disk, or a writer that panics, must not stop a
// container.
func (l *logFile) line(raw []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && l.file != nil {
		_ = run.Guard("Write to a log file from Config.OpenLog", func() error {
			_, err := l.file.Write(raw)
			return err
		})
	}
}

func appendLogLine(to []byte, at time.Time, stream string, tag byte, content []byte) []byte {
	to = at.UTC().AppendFormat(to, time.RFC3339Nano)
	to = append(to, ' ')
	to = append(to, stream...)
	to = append(to, ' ', tag, ' ')
	to = append(to, content...)
	return append(to, '\n')
}

// openLogFile opens a real log file and makes its directory.
func openLogFile(path string) (io.WriteCloser, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
}
