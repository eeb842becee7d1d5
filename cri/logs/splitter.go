package logs

import (
	"bytes"
	"errors"
)

// splitter splits blocks of a file into lines for a printer. It passes a line longer than a block
// in pieces.
type splitter struct {
	to *printer
	// long is an overlong line that was partly passed on. skip is true if its format is unknown.
	long         Line
	inLong, skip bool
}

// feed processes the complete lines in b and returns their total length.
func (s *splitter) feed(b []byte) (int, error) {
	used := 0
	if s.inLong {
		n, err := s.continueLine(b)
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

// continueLine processes the next piece of the overlong line.
func (s *splitter) continueLine(b []byte) (int, error) {
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

// overlong processes all of b as the beginning of a line whose end is unknown.
func (s *splitter) overlong(b []byte) error {
	line, ok, err := parse(b)
	s.inLong, s.skip, s.long = true, !ok, line
	if err != nil || !ok {
		return err
	}
	return s.to.line(line, false)
}

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

// parse parses a line. ok is false for a line to skip.
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

func (s *splitter) reset() { s.inLong = false }
