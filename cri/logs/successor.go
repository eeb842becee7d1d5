package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// openTries bounds how often a rotation may come between looking and opening.
const openTries = 10

// openStart opens the file that reading begins with: the one that the path names
// or, in the moment of a rotation at which there is none, the newest rotated one.
func openStart(path string) (*segment, error) {
	for range openTries {
		s, err := openSegment(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
		list, listErr := listRotated(path)
		if listErr != nil || len(list) == 0 {
			return nil, err
		}
		s, err = openRotated(path, list[len(list)-1])
		if !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
	}
	return nil, fmt.Errorf("%s: rotated away %d times while it was opened", path, openTries)
}

// successor opens the file in which a log goes on after s, which the log's path
// no longer names; nil when there is none yet. gap tells that s is not among the
// rotated files any more, so that others after it may be missing as well.
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
	gap := false
	if err == nil {
		list, gap, err = after(s, path, list)
	}
	if err != nil || len(list) > 0 {
		if current != nil {
			_ = current.close()
		}
		if err != nil {
			return nil, false, err
		}
		next, err := openRotated(path, list[0])
		return next, gap, err
	}
	if current != nil && current.id == s.id { // renamed back
		_ = current.close()
		return nil, false, nil
	}
	return current, gap && current != nil, nil
}

// after returns the rotated files that came after s. gap tells that s is not
// among them; then those are taken that begin later.
func after(s *segment, path string, list []rotated) (later []rotated, gap bool, err error) {
	// From the newest on: it is likely that one. Empty files cannot be told
	// apart once they are compressed, but no empty file is ever rotated.
	for i, r := range slices.Backward(list) {
		is, err := s.isIn(path, r)
		if err != nil {
			return nil, false, err
		}
		if is {
			return list[i+1:], false, nil
		}
	}
	if s.gz != nil {
		for i, r := range list {
			if r.stamp > s.stamp {
				return list[i:], true, nil
			}
		}
		return nil, true, nil
	}
	head, err := s.head()
	if err != nil {
		return nil, false, err
	}
	begin := firstTime(head)
	for i, r := range list {
		head, err := headOf(path, r)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, false, err
		}
		if t := firstTime(head); !begin.IsZero() && t.After(begin) {
			return list[i:], true, nil
		}
	}
	return nil, len(list) > 0, nil
}
