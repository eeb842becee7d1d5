package logs

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// Stream is the output stream of a line.
type Stream string

// The streams of a container.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// ErrBadLine is wrapped by the error for a line that is not in the CRI format.
var ErrBadLine = errors.New("bad log line")

// ErrDockerLine is wrapped by the error for a JSON line of docker, an unsupported format. Such an
// error also wraps ErrBadLine.
var ErrDockerLine = fmt.Errorf("%w: docker's JSON format instead of the CRI format", ErrBadLine)

var (
	newline = []byte("\n")
	space   = []byte(" ")
	brace   = []byte("{")
)

// Line is one physical line of a log file.
type Line struct {
	Timestamp time.Time
	Stream    Stream
	// Partial is true if the container's line continues in the next line of the same stream.
	Partial bool
	// Content is the container's text without a final newline. It may share memory with the parsed
	// line.
	Content []byte
}

// ParseLine parses one physical line of a log file, with or without its newline, in the CRI
// format:
//
//	2026-01-02T15:04:05.999999999Z stdout F the content
//
// The third field contains tags, separated by colons; a first tag P marks a partial line.
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

// newLine returns a Line with the first two fields. It does not allocate, because logs are read at
// hundreds of megabytes per second.
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
