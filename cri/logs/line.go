package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Stream is where a container wrote a line to.
type Stream string

// The streams of a container.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// ErrBadLine is wrapped by the error of a line that is in neither format.
var ErrBadLine = errors.New("bad log line")

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

// ParseLine takes one physical line of a log file apart, with or without its
// newline. A line that begins with a brace is a JSON line of docker, any other
// has the CRI format:
//
//	2026-01-02T15:04:05.999999999Z stdout F the content
//
// The third field holds tags, separated by colons; a first tag P marks a partial
// line.
func ParseLine(line []byte) (Line, error) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	if bytes.HasPrefix(line, []byte("{")) {
		return parseJSON(line)
	}
	return parseCRI(line)
}

func parseCRI(line []byte) (Line, error) {
	var fields [3]string
	rest := line
	for i, what := range []string{"timestamp", "stream", "tags"} {
		field, after, ok := bytes.Cut(rest, []byte(" "))
		if !ok {
			return Line{}, fmt.Errorf("%w: no space after the %s", ErrBadLine, what)
		}
		fields[i], rest = string(field), after
	}
	out, err := newLine(fields[0], fields[1])
	if err != nil {
		return Line{}, err
	}
	if fields[2] == "" {
		return Line{}, fmt.Errorf("%w: empty tags", ErrBadLine)
	}
	tag, _, _ := strings.Cut(fields[2], ":")
	out.Partial, out.Content = tag == "P", rest
	return out, nil
}

func parseJSON(line []byte) (Line, error) {
	var entry struct {
		Log    string `json:"log"`
		Stream string `json:"stream"`
		Time   string `json:"time"`
	}
	if err := json.Unmarshal(line, &entry); err != nil {
		return Line{}, fmt.Errorf("%w: %w", ErrBadLine, err)
	}
	out, err := newLine(entry.Time, entry.Stream)
	if err != nil {
		return Line{}, err
	}
	content, full := strings.CutSuffix(entry.Log, "\n")
	out.Partial, out.Content = !full, []byte(content)
	return out, nil
}

func newLine(timestamp, stream string) (Line, error) {
	at, err := time.Parse(time.RFC3339Nano, timestamp)
	if err != nil {
		return Line{}, fmt.Errorf("%w: timestamp: %w", ErrBadLine, err)
	}
	if s := Stream(stream); s == Stdout || s == Stderr {
		return Line{Timestamp: at, Stream: s}, nil
	}
	return Line{}, fmt.Errorf("%w: stream %q", ErrBadLine, stream)
}
