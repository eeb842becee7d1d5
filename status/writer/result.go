package writer

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/internal/podstatus"
)

type result struct {
	pod *v1.Pod
	err error
	now time.Time
}

var (
	errReplaced = fmt.Errorf("the name belongs to another pod: %w", status.ErrNotFound)
	errNoPod    = errors.New("the sink returned neither a pod nor an error")
	errWrongPod = errors.New("the sink returned a different pod")
)

// done records the result of a call. more reports whether the write continues with another call;
// err is the error of the call.
func (s *slot) done(c call, r result) (more bool, err error) {
	s.flight = between
	if c.ref != s.ref { // the static pod has another mirror, without a status
		s.unwritten()
		return false, r.err
	}
	switch err = s.verify(c, r); {
	case s.isNotFound(err) && (c.kind == deleting || s.finished && s.deleting && !s.mirror), err == nil && c.kind == deleting:
		err = nil // the pod is removed, even if by others
		*s = slot{receives: s.receives, mirrors: s.mirrors, pod: s.pod, status: s.status, content: removed, flight: between, behind: s.behind}
	case err != nil:
		s.failed(err, r.now)
	case c.kind == getting:
		s.setBase(r.pod)
	case c.kind == patching:
		s.patched(c, r)
	default:
		s.seen = phaseReadyOf(c.new)
		s.written(c.version, false, r.now)
	}
	return c.kind == getting || s.toDelete(), err
}

// isNotFound reports whether an error means that the sink has no such pod. A Receiver's error never
// does.
func (s *slot) isNotFound(err error) bool { return !s.receives && errors.Is(err, status.ErrNotFound) }

// verify returns the error of a call: the sink's error or an error about its result.
func (s *slot) verify(c call, r result) error {
	switch {
	case r.err != nil || c.kind == deleting || c.kind == receiving:
		return r.err
	case r.pod == nil:
		return errNoPod
	case r.pod.UID == c.ref.UID:
		return nil
	case c.kind == patching:
		return errWrongPod
	case s.mirror && mirrorOf(r.pod, s.pod):
		s.retarget(r.pod) // the mirror was recreated, and the facts are outdated
		return nil
	default:
		return errReplaced
	}
}

// patched records the result of a patch. An observation during the patch may be newer.
func (s *slot) patched(c call, r result) {
	overtaken := false
	if s.base != nil {
		overtaken, _ = newerVersion(s.base.version, r.pod.ResourceVersion)
	}
	if !overtaken {
		s.setBase(r.pod)
	}
	s.written(c.version, c.partial, r.now)
	switch current := s.base.status; {
	case podstatus.Equal(current, c.new):
		s.base.status, s.kept = c.new, nil // keeps one copy
	case !overtaken && podstatus.Equal(current, c.old):
		s.kept = current // a second patch would not change it either
	default:
		s.recheckLater(drifted, r.now)
	}
}

// written records that the sink has accepted a version. partial is true if the version lacks the
// pod's terminal phase.
func (s *slot) written(version uint64, partial bool, now time.Time) {
	if !s.writing.IsZero() {
		s.behind, s.writing = max(now.Sub(s.writing), 1), time.Time{}
	}
	if version != s.version {
		s.apply(olderWritten)
	} else if s.apply(newestWritten); partial {
		s.recheckLater(runs, now)
	}
	if !s.toDelete() { // otherwise the write continues
		s.failures, s.err = 0, nil
	}
}

func (s *slot) unwritten() {
	if !s.writing.IsZero() {
		s.since, s.writing = s.writing, time.Time{}
	}
}

// failed records the failure of a call. After a first conflict the sink's status is read again at
// once.
func (s *slot) failed(err error, now time.Time) {
	s.unwritten()
	s.base, s.err = nil, err
	s.failures++
	s.failedAs = s.urgency()
	s.apply(callFailed)
	switch {
	case s.isNotFound(err):
		s.postpone(absent, now.Add(pause(s.pod.UID, s.failures, absentPause)))
	case s.failures > 1 || !errors.Is(err, status.ErrConflict):
		s.postpone(failure, now.Add(pause(s.pod.UID, s.failures, resync)))
	}
}

// pause returns the wait after a number of failures: firstPause, doubled for each failure, at
// most longest, minus up to a quarter, which depends on the pod.
func pause(uid types.UID, failures int, longest time.Duration) time.Duration {
	d := firstPause
	for range failures - 1 {
		d = min(2*d, longest)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(string(uid) + strconv.Itoa(failures)))
	return d - d/4*time.Duration(h.Sum32()%256)/256
}

// newerVersion compares resource versions. ordered is false if they are not comparable.
func newerVersion(a, b string) (newer, ordered bool) {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return x > y, errX == nil && errY == nil
}
