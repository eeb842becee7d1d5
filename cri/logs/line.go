package logs

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// Stream is where a container wrote a line to.
type Stream string

// The streams of a container.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// ErrBadLine is wrapped by the error of a line that is not in the CRI format.
var ErrBadLine = errors.New("bad log line")

// ErrDockerLine is wrapped by the error of a JSON line of docker's log format, which
// is not supported. Such an error wraps ErrBadLine too.
var ErrDockerLine = fmt.Errorf("%w: JSON of docker, not the CRI format", ErrBadLine)

var (
	newline = []byte("\n")
	space   = []byte(" ")
	brace   = []byte("{")
)

// Line is one physical line of a log file.
type Line struct {
	Timestamp time.Time
	Stream    Stream
	// Partial tells that what the container wrote goes on in the next line of
	// the same stream: no newline follows Content.
	Partial bool
	// Content is what the container wrote, without a newline at its end. It
	// may share memory with the parsed line.
	Content []byte
}

// ParseLine parses one physical line of a log file, with or without its newline. The
// line has the CRI format:
//
//	2026-01-02T15:04:05.999999999Z stdout F the content
//
// The third field holds tags, separated by colons; a first tag P marks a partial
// line.
func ParseLine(line []byte) (Line, error) {
	line = bytes.TrimSuffix(line, newline)
	if bytes.HasPrefix(line, brace) {
		return Line{}, ErrDockerLine
	}
	timestamp, rest, ok := bytes.Cut(line, space)
	if !ok {
		return Line{}, fmt.Errorf("%w: no space after the timestamp", ErrBadLine)
	}
	stream, rest, ok := bytes.Cut(rest, space)
	if !ok {
		return Line{}, fmt.Errorf("%w: no space after the stream", ErrBadLine)
	}
	tags, content, ok := bytes.Cut(rest, space)
	if !ok {
		return Line{}, fmt.Errorf("%w: no space after the tags", ErrBadLine)
	}
	out, err := newLine(timestamp, stream)
	if err != nil {
		return Line{}, err
	}
	if len(tags) == 0 {
		return Line{}, fmt.Errorf("%w: empty tags", ErrBadLine)
	}
	out.Partial = tags[0] == 'P' && (len(tags) == 1 || tags[1] == ':')
	out.Content = content
	return out, nil
}

// newLine makes a line of its two first fields. It does not allocate: logs are
// read at hundreds of megabytes per second.
func newLine(timestamp, stream []byte) (Line, error) {
	var line Line
	if err := line.Timestamp.UnmarshalText(timestamp); err != nil {
		return Line{}, fmt.Errorf("%w: timestamp: %w", ErrBadLine, err)
	}
	switch string(stream) {
	case string(Stdout):
		line.Stream = Stdout
	case string(Stderr):
		line.Stream = Stderr
	default:
		return Line{}, fmt.Errorf("%w: stream %q", ErrBadLine, stream)
	}
	return line, nil
}
