package logs

import (
	"bytes"
	"errors"
)

// splitter cuts blocks of a file into lines and hands them on. A line longer than
// a block is handed on in pieces.
type splitter struct {
	to *printer
	// long is the overlong line of which a part has been handed on; skip tells
	// that it was in no known format.
	long         Line
	inLong, skip bool
}

// feed hands on the complete lines in b and returns how much of b that was.
func (s *splitter) feed(b []byte) (int, error) {
	used := 0
	if s.inLong {
		n, err := s.goOn(b)
		if used = n; err != nil || s.inLong {
			return used, err
		}
	}
	for !s.to.full() {
		end := bytes.IndexByte(b[used:], '\n')
		if end < 0 {
			break
		}
		raw := b[used : used+end]
		used += end + 1
		line, ok, err := parse(raw)
		if err == nil && ok {
			err = s.to.line(line, true)
		}
		if err != nil {
			return used, err
		}
	}
	return used, nil
}

// goOn hands on more of the overlong line.
func (s *splitter) goOn(b []byte) (int, error) {
	content, _, ended := bytes.Cut(b, newline)
	used := len(content)
	if ended {
		used++
		s.inLong = false
	}
	if s.skip {
		return used, nil
	}
	s.long.Content = content
	return used, s.to.line(s.long, ended)
}

// overlong hands on a line whose end is not in sight. Everything in b is used.
func (s *splitter) overlong(b []byte) error {
	line, ok, err := parse(b)
	s.inLong, s.skip, s.long = true, !ok, line
	if err != nil || !ok {
		return err
	}
	return s.to.line(line, false)
}

// rest hands on a last line that has no end.
func (s *splitter) rest(b []byte) error {
	if s.inLong || len(b) == 0 {
		return nil
	}
	line, ok, err := parse(b)
	if err != nil || !ok {
		return err
	}
	return s.to.line(line, false)
}

// parse parses a line. ok is false for a line to leave out.
func parse(raw []byte) (line Line, ok bool, err error) {
	line, err = ParseLine(raw)
	switch {
	case err == nil:
		return line, true, nil
	case errors.Is(err, ErrDockerLine):
		return Line{}, false, err
	}
	return Line{}, false, nil
}

// reset is for the beginning of another file.
func (s *splitter) reset() { s.inLong = false }
