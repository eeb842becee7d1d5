package fake

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// maxLogLine is where a log line is cut into parts, as containerd does.
const maxLogLine = 16 << 10

// logFile is a container's log, shared by its two streams. The path can be
// opened anew under it, after a rotation.
type logFile struct {
	path string
	open func(path string) (io.WriteCloser, error)

	mu     sync.Mutex
	file   io.WriteCloser // nil: dropped
	closed bool
}

// openContainerLog opens a log; with an empty path everything is dropped.
func openContainerLog(path string, open func(string) (io.WriteCloser, error)) (*logFile, error) {
	l := &logFile{path: path, open: open}
	if path == "" {
		return l, nil
	}
	file, err := open(path)
	if err != nil {
		return nil, err
	}
	l.file = file
	return l, nil
}

// reopen turns to the file that the path names now.
func (l *logFile) reopen() error {
	if l.path == "" {
		return nil
	}
	file, err := l.open(l.path)
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
	if old != nil {
		return old.Close()
	}
	return nil
}

func (l *logFile) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// line writes one line. What cannot be written is lost: a full disk must not
// stop a container.
func (l *logFile) line(raw []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && l.file != nil {
		_, _ = l.file.Write(raw)
	}
}

// logStream turns what a program writes to one stream into log lines.
type logStream struct {
	name string // stdout or stderr
	log  *logFile
	drop bool // nothing is kept, so nothing is formatted

	mu     sync.Mutex
	rest   []byte // an unfinished line
	line   []byte // scratch
	closed bool
}

// Write logs every line that is complete and keeps the rest.
func (s *logStream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, io.ErrClosedPipe
	}
	if s.drop {
		return len(p), nil
	}
	for rest := p; len(rest) > 0; {
		content, after, found := bytes.Cut(rest, []byte{'\n'})
		s.rest = append(s.rest, content...)
		s.cut()
		if found {
			s.emit('F', s.rest)
			s.rest = s.rest[:0]
		}
		rest = after
	}
	return len(p), nil
}

// cut logs what an overlong line has too much, as partial lines.
func (s *logStream) cut() {
	for len(s.rest) > maxLogLine {
		s.emit('P', s.rest[:maxLogLine])
		s.rest = append(s.rest[:0], s.rest[maxLogLine:]...)
	}
}

// close ends the stream. A line without its end stays partial.
func (s *logStream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	if len(s.rest) > 0 {
		s.emit('P', s.rest)
	}
	s.rest, s.line = nil, nil
}

func (s *logStream) emit(tag byte, content []byte) {
	s.line = appendLogLine(s.line[:0], time.Now(), s.name, tag, content)
	s.log.line(s.line)
}

// appendLogLine formats a line of the CRI log format.
func appendLogLine(to []byte, at time.Time, stream string, tag byte, content []byte) []byte {
	to = at.UTC().AppendFormat(to, time.RFC3339Nano)
	to = append(to, ' ')
	to = append(to, stream...)
	to = append(to, ' ', tag, ' ')
	to = append(to, content...)
	return append(to, '\n')
}

// openLogFile opens a real log file, making its directory.
func openLogFile(path string) (io.WriteCloser, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
}

// noInput is standard input of which nothing comes.
type noInput struct{}

func (noInput) Read([]byte) (int, error) { return 0, io.EOF }
