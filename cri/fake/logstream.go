package fake

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/podwright/podwright/internal/run"
)

// logStream converts the output of a program's stream to log lines.
type logStream struct {
	name  string   // stdout or stderr
	log   *logFile // without a path output is dropped, so no line is formatted
	gate  *logGate
	clock *clock

	mu     sync.Mutex
	rest   []byte        // an unfinished line
	line   []byte        // scratch
	held   []byte        // data delayed by the gate
	ending chan struct{} // closed at the end, for writers that wait; may be nil

	over atomic.Bool // set once; read again after each operation that may block
}

// Write logs every complete line and keeps the rest. While the runtime is down it buffers as much
// as a pipe and then blocks.
func (s *logStream) Write(p []byte) (int, error) {
	if s.gate.shut.Load() && s.log.path != "" {
		return s.hold(p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over.Load() {
		return 0, io.ErrClosedPipe
	}
	if s.log.path == "" {
		return len(p), nil
	}
	s.passHeld()
	s.pass(p)
	return len(p), nil
}

// hold keeps p until the gate opens.
func (s *logStream) hold(p []byte) (int, error) {
	for rest := p; ; {
		s.mu.Lock()
		register := s.settle
		if len(s.held) > 0 {
			register = nil
		}
		opens := s.gate.atOpening(register)
		if s.over.Load() {
			s.mu.Unlock()
			return len(p) - len(rest), io.ErrClosedPipe
		}
		if opens == nil {
			s.passHeld()
			s.pass(rest)
			s.mu.Unlock()
			return len(p), nil
		}
		n := min(len(rest), pipeSize-len(s.held))
		s.held, rest = append(s.held, rest[:n]...), rest[n:]
		if s.ending == nil {
			s.ending = make(chan struct{})
		}
		ending := s.ending
		s.mu.Unlock()
		if len(rest) == 0 {
			return len(p), nil
		}
		select {
		case <-opens:
		case <-ending:
		}
	}
}

// settle writes or drops the delayed data.
func (s *logStream) settle(keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if keep {
		s.passHeld()
	}
	s.held = nil
}

func (s *logStream) passHeld() {
	if len(s.held) > 0 {
		held := s.held
		s.held = nil
		s.pass(held)
	}
}

func (s *logStream) pass(p []byte) {
	for len(p) > 0 {
		content, after, found := bytes.Cut(p, []byte{'\n'})
		s.rest = append(s.rest, content...)
		if found {
			s.rest = withoutReturn(s.rest)
		}
		s.cut()
		if found {
			s.emit('F', s.rest)
			s.rest = s.rest[:0]
		}
		p = after
	}
}

// withoutReturn removes a carriage return at the end of a line, as containerd does.
func withoutReturn(line []byte) []byte { return bytes.TrimSuffix(line, []byte{'\r'}) }

// cut logs the excess of an overlong line as partial lines. It does not count a carriage return at
// the end, because the end of the line may follow.
func (s *logStream) cut() {
	for len(withoutReturn(s.rest)) > maxLogLine {
		s.emit('P', s.rest[:maxLogLine])
		s.rest = append(s.rest[:0], s.rest[maxLogLine:]...)
	}
}

// end ends the stream for its writers.
func (s *logStream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over.Store(true)
	if s.ending != nil {
		close(s.ending)
		s.ending = nil
	}
}

// flush writes the rest of an ended stream. A line without its end stays partial.
func (s *logStream) flush(keep bool) {
	s.settle(keep)
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.rest) > 0 {
		n := min(len(s.rest), maxLogLine)
		s.emit('P', s.rest[:n])
		s.rest = s.rest[n:]
	}
	s.rest, s.line = nil, nil
}

func (s *logStream) emit(tag byte, content []byte) {
	s.line = appendLogLine(s.line[:0], s.clock.now(), s.name, tag, content)
	s.log.line(s.line)
}

// containerLog is a container's log with its two streams.
type containerLog struct {
	logFile
	stdout, stderr logStream
	logger         *slog.Logger
}

// openLog opens the log of a container; with an empty path all output is dropped.
func (rt *Runtime) openLog(l *containerLog, path string) error {
	if err := l.begin(path, rt.cfg.OpenLog); err != nil {
		return err
	}
	l.logger = rt.cfg.Logger
	l.stdout.name, l.stderr.name = "stdout", "stderr"
	for _, s := range []*logStream{&l.stdout, &l.stderr} {
		s.log, s.gate, s.clock = &l.logFile, &rt.logs, &rt.clock
	}
	return nil
}

// end ends both streams and closes the file, at once or when the runtime is up again.
func (l *containerLog) end() {
	l.stdout.end()
	l.stderr.end()
	if l.path == "" || l.stdout.gate.atOpening(l.finish) == nil {
		l.finish(true)
	}
}

// abandon is end for a program that may hang in a write to its log with the lock of a stream. The
// streams drop further output.
func (l *containerLog) abandon() {
	l.stdout.over.Store(true)
	l.stderr.over.Store(true)
	go l.end()
}

// endInTime is end with a timeout for a file that may hang. The end of a container waits for its
// log no longer than for its program.
func (l *containerLog) endInTime() {
	if l.path == "" {
		l.end()
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.end()
	}()
	if !run.Wait(ended, killTimeout) {
		l.logger.Warn("closing a container log takes too long", "path", l.path)
	}
}

func (l *containerLog) finish(keep bool) {
	l.stdout.flush(keep)
	l.stderr.flush(keep)
	if err := l.close(); err != nil {
		l.logger.Warn("container log not closed", "path", l.path, "err", err)
	}
}
