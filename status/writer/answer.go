package writer

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status"
)

// call is one call of the sink.
type call struct {
	kind callKind
	ref  status.Ref
	// version is the one that is written.
	version uint64
	// pod goes with new to a Receiver.
	pod      *v1.Pod
	old, new *v1.PodStatus
}

type callKind int8

const (
	callGet callKind = iota
	callPatch
	callDelete
	callReceive
)

func (k callKind) String() string { return [...]string{"get", "patch", "delete", "receive"}[k] }

// answer is what came of a call.
type answer struct {
	pod *v1.Pod
	err error
	now time.Time
}

// Errors about what a sink answers, beside its own.
var (
	errReplaced = fmt.Errorf("another pod has the name: %w", status.ErrNotFound)
	errNoPod    = errors.New("the sink returned neither a pod nor an error")
	errWrongPod = errors.New("the sink returned another pod than it was to write")
)

// done takes in what came of a call. gone tells that the pod is no more, and that
// nothing has to be remembered of it.
func (s *slot) done(c call, a answer) (gone bool) {
	err := s.verify(c, a)
	switch {
	case s.absentBy(err) && (c.kind == callDelete || s.finished && s.deleting && !s.mirror):
		return true // somebody else has deleted it
	case err != nil:
		s.failed(err, a.now)
	case c.kind == callGet:
		s.learn(a.pod)
		s.absent = false
	case c.kind == callPatch:
		s.patched(c, a)
	case c.kind == callReceive:
		s.seen = phaseReadyOf(c.new)
		s.accepted(c.version, a.now)
	default:
		return true
	}
	return false
}

// absentBy tells whether an error says that the sink has no such pod. That of a
// Receiver says nothing of the kind.
func (s *slot) absentBy(err error) bool { return !s.receives && errors.Is(err, status.ErrNotFound) }

// verify is the error of a call, the sink's own or one about what it returned.
func (s *slot) verify(c call, a answer) error {
	switch {
	case a.err != nil || c.kind == callDelete || c.kind == callReceive:
		return a.err
	case a.pod == nil:
		return errNoPod
	case a.pod.UID == c.ref.UID:
		return nil
	case c.kind == callPatch:
		return errWrongPod
	case s.mirror && mirrorOf(a.pod, s.pod):
		s.retarget(a.pod) // it was made anew, and whoever tells us is late
		return nil
	default:
		return errReplaced
	}
}

// patched takes in the answer to a patch. What was observed meanwhile may be newer.
func (s *slot) patched(c call, a answer) {
	overtaken := false
	if s.base != nil {
		overtaken, _ = newerVersion(s.base.version, a.pod.ResourceVersion)
	}
	if !overtaken {
		s.learn(a.pod)
	}
	s.accepted(c.version, a.now)
	switch there := s.base.status; {
	case status.Equal(there, c.new):
		s.base.status, s.settled = c.new, nil // one of the two is enough
	case !overtaken && status.Equal(there, c.old):
		s.settled = there // it does not take it, and will not the next time
	default:
		s.differs = true
	}
}

// accepted notes that the sink has a version.
func (s *slot) accepted(version uint64, now time.Time) {
	if !s.since.IsZero() {
		s.behind = max(now.Sub(s.since), 1)
	}
	s.written, s.differs = version, false
	s.since, s.sinceNext = s.sinceNext, time.Time{}
	if s.version == s.written {
		s.since = time.Time{}
	}
	if !s.toDelete() { // else the turn goes on
		s.failures, s.err, s.retryAt = 0, nil, time.Time{}
	}
}

// failed notes that a call failed. A first conflict is no failure yet: the next
// call asks what is there.
func (s *slot) failed(err error, now time.Time) {
	s.base, s.err = nil, err
	s.check = true // also where the newest version had been accepted before
	s.failures++
	s.failedAs = s.urgency()
	longest := resync
	if s.absent = s.absentBy(err); s.absent {
		longest = absentPause
	}
	if s.failures == 1 && errors.Is(err, status.ErrConflict) {
		s.retryAt = time.Time{}
		return
	}
	s.retryAt = now.Add(pause(s.pod.UID, s.failures, longest))
}

// pause is how long to wait after so many failures: firstPause, doubled each time, at
// most longest, and for each pod up to a quarter less.
func pause(uid types.UID, failures int, longest time.Duration) time.Duration {
	d := firstPause
	for range failures - 1 {
		d = min(2*d, longest)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid))
	_, _ = h.Write([]byte(strconv.Itoa(failures)))
	return d - d/4*time.Duration(h.Sum32()%256)/256
}

// learn takes in what the sink has. Of what others own only what matters is kept.
func (s *slot) learn(obj *v1.Pod) {
	part := status.Normalize(s.pod, status.Own(&obj.Status))
	s.base = &known{
		uid: obj.UID, version: obj.ResourceVersion,
		deleting: obj.DeletionTimestamp != nil, status: &part,
	}
	s.seen = phaseReadyOf(&part)
}

// observed takes in a pod as somebody saw it at the sink. It may be older than what
// is known already.
func (s *slot) observed(obj *v1.Pod) {
	if s.mirror && mirrorOf(obj, s.pod) && obj.DeletionTimestamp == nil {
		s.retarget(obj)
	}
	if obj.UID != s.ref.UID {
		return
	}
	s.ready = true
	s.deleting = s.deleting || obj.DeletionTimestamp != nil
	if s.absent {
		s.absent, s.retryAt = false, time.Time{}
	}
	if s.base == nil {
		return // the sink will be asked
	}
	newer, known := newerVersion(obj.ResourceVersion, s.base.version)
	if known && !newer {
		return
	}
	before := s.base
	s.learn(obj)
	switch there := s.base.status; {
	case status.Equal(there, before.status):
		s.base.status = before.status
	case s.settled != nil && status.Equal(there, s.settled):
	case !known:
		s.base, s.differs = nil, true // perhaps an old one: ask
	default:
		s.differs = true
	}
}

// newerVersion compares resource versions. known is false when they cannot be
// compared.
func newerVersion(a, b string) (newer, known bool) {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return x > y, errX == nil && errY == nil
}

// tick is the resync: what waits for something outside is looked at again, and what
// the sink turned out not to have is written anew.
func (s *slot) tick() {
	if s.held || s.differs {
		s.check, s.ready, s.differs = true, true, false
	}
	if s.ref.UID == "" {
		s.ready = true
	}
}

// hurry makes a failed call due at once, since the sink answers others again.
func (s *slot) hurry() {
	if s.failures > 0 && !s.absent {
		s.retryAt = time.Time{}
	}
}

// aim finds out where to write to. A static pod is written to its mirror, which
// can be made anew at any time.
func (s *slot) aim(f facts) {
	if f.pod != nil {
		s.pod = f.pod
		s.deleting = s.deleting || f.pod.DeletionTimestamp != nil
	}
	if s.mirror = f.mirrors && podfacts.IsStatic(s.pod); !s.mirror {
		s.ref = status.Ref{Namespace: s.pod.Namespace, Name: s.pod.Name, UID: s.pod.UID}
		return
	}
	var uid types.UID
	if f.mirror != nil {
		uid = f.mirror.UID
	}
	if told := s.mirrorTold; uid != told {
		s.mirrorTold = uid
		if uid != "" || s.ref.UID == told {
			s.retarget(f.mirror)
		}
	}
}

// retarget turns to another mirror, which has nothing yet; nil: there is none.
func (s *slot) retarget(mirror *v1.Pod) {
	var ref status.Ref
	if mirror != nil {
		ref = status.Ref{Namespace: mirror.Namespace, Name: mirror.Name, UID: mirror.UID}
	}
	if ref.UID == s.ref.UID {
		return
	}
	s.ref, s.base, s.seen, s.settled, s.written = ref, nil, phaseReady{}, nil, 0
	s.absent, s.failures, s.retryAt, s.err = false, 0, time.Time{}, nil
	s.ready = true
}

// mirrorOf tells whether an object is the mirror of a static pod, as this is now.
func mirrorOf(obj, static *v1.Pod) bool {
	hash, ok := obj.Annotations[podfacts.ConfigMirror]
	return ok && obj.Namespace == static.Namespace && obj.Name == static.Name &&
		(static.Annotations[podfacts.ConfigHash] == "" || hash == static.Annotations[podfacts.ConfigHash])
}
