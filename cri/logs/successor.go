package logs

import (
	"errors"
	"fmt"
	"io/fs"
)

// openTries bounds how often a rotation may come between looking and opening.
const openTries = 10

// openStart opens the file that reading begins with: the one that the path names
// or, in the moment of a rotation at which there is none, the newest rotated one
// that is not compressed.
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
	return nil, fmt.Errorf("%s: rotated away %d times while it was opened", path, openTries)
}

// opened records which rotations precede the file, which was opened as the log
// before the rotated files were listed.
func (s *segment) opened(path string, list []rotated) {
	for _, r := range list {
		s.stamp = r.stamp
		if s.placed = s.is(path, r); s.placed {
			return // it was rotated in between
		}
	}
}

// is reports whether the segment is an uncompressed rotated file of the log at path.
func (s *segment) is(path string, r rotated) bool {
	if r.gz {
		return false
	}
	id, _, err := look(r.path(path))
	return err == nil && id == s.id
}

// successor opens the file in which a log goes on after s, which the log's path
// no longer names: the next rotated file that is not compressed yet, or the file at
// the path. It returns nil while there is neither. gap reports that files between the
// two may be missing or compressed, so that their lines are not read.
func successor(s *segment, path string) (next *segment, gap bool, err error) {
	for range openTries {
		next, gap, err = trySuccessor(s, path)
		if !errors.Is(err, fs.ErrNotExist) {
			return next, gap, err
		}
	}
	return nil, false, nil
}

// trySuccessor fails with fs.ErrNotExist when a rotation came in between.
func trySuccessor(s *segment, path string) (*segment, bool, error) {
	// The path first, then the list: what is rotated in between is in the list.
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
	case current != nil: // a rotated file comes first, or it was renamed back
		_ = current.close()
	}
	if err != nil || next == nil {
		return nil, false, err
	}
	opened, err := openRotated(path, *next)
	return opened, gap, err
}

// after returns the first uncompressed rotated file that follows s, nil without one.
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
