package logs

import (
	"errors"
	"fmt"
	"io/fs"
)

// openTries bounds the retries after rotations between listing and opening.
const openTries = 10

// openStart opens the file to begin with: the file at path or, if it is missing in the middle of a
// rotation, the newest uncompressed rotated file.
func openStart(path string) (*segment, error) {
	for range openTries {
		s, err := openSegment(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		list, listErr := listRotated(path)
		if err == nil {
			s.opened(path, list)
			return s, nil
		}
		newest, ok := newestPlain(list)
		if listErr != nil || !ok {
			return nil, err
		}
		s, err = openRotated(path, newest)
		if !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
	}
	return nil, fmt.Errorf("%s: rotated %d times while it was opened", path, openTries)
}

// opened sets stamp and placed of a file that was opened as the log before list was read.
func (s *segment) opened(path string, list []rotated) {
	for _, r := range list {
		s.stamp = r.stamp
		if s.placed = s.is(path, r); s.placed {
			return // rotated meanwhile
		}
	}
}

// is reports whether the segment is the uncompressed rotated file r of the log at path.
func (s *segment) is(path string, r rotated) bool {
	if r.gz {
		return false
	}
	id, _, err := statFile(r.path(path))
	return err == nil && id == s.id
}

// successor opens the next file of a log after s, which is no longer the file at path:
// the next uncompressed rotated file, or the file at path. It returns nil without either. gap
// reports that files in between may be missing or compressed, so that their lines are not read.
func successor(s *segment, path string) (next *segment, gap bool, err error) {
	for range openTries {
		next, gap, err = trySuccessor(s, path)
		if !errors.Is(err, fs.ErrNotExist) {
			return next, gap, err
		}
	}
	return nil, false, nil
}

// trySuccessor fails with fs.ErrNotExist if a rotation intervened.
func trySuccessor(s *segment, path string) (*segment, bool, error) {
	// First the path, then the list: a file that is rotated in between is in the list.
	current, err := openSegment(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	list, err := listRotated(path)
	next, gap := s.after(path, list)
	switch {
	case err == nil && next == nil && (current == nil || current.id != s.id):
		if current != nil {
			current.opened(path, list)
		}
		return current, gap && current != nil, nil
	case current != nil: // a rotated file comes first, or s was renamed back
		_ = current.close()
	}
	if err != nil || next == nil {
		return nil, false, err
	}
	opened, err := openRotated(path, *next)
	return opened, gap, err
}

// after returns the first uncompressed rotated file that follows s, or nil.
func (s *segment) after(path string, list []rotated) (next *rotated, gap bool) {
	placed, compressed := s.placed, 0
	for _, r := range list {
		switch {
		case s.is(path, r):
			placed, compressed, next = true, 0, nil
		case r.stamp <= s.stamp || next != nil:
		case r.gz:
			compressed++
		default:
			next = &r
		}
	}
	if placed {
		return next, compressed > 0
	}
	// One compressed file may be s itself.
	return next, len(list) > 0 && compressed != 1
}
