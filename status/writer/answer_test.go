package writer

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status"
)

// The status of a pod without a mirror goes to the pod itself, and what is known of its
// end stays known.
func TestAim(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "app")
	s := slot{pod: pod}
	s.aim(facts{})
	require.Equal(t, status.Ref{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, s.ref)
	require.Same(t, pod, s.pod)
	require.False(t, s.deleting || s.mirror)
	deleted := pod.DeepCopy()
	deleted.DeletionTimestamp = &metav1.Time{Time: now}
	s.aim(facts{pod: deleted})
	require.True(t, s.deleting)
	require.Same(t, deleted, s.pod)
	s.aim(facts{pod: pod})
	require.True(t, s.deleting)
}

// A mirror that facts tell of anew is the one to write to, also after another was observed;
// that the one told before is gone says nothing of that other.
func TestAimAtMirror(t *testing.T) {
	static := podOf(v1.RestartPolicyAlways, "app")
	static.Annotations = map[string]string{podfacts.ConfigSource: "file"}
	mirror := func(uid types.UID) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: uid}}
	}
	s := slot{pod: static}
	for _, c := range []struct {
		told, observed *v1.Pod
		want           types.UID
	}{
		{nil, nil, ""}, {mirror("1"), nil, "1"}, {mirror("1"), mirror("2"), "2"}, {mirror("1"), nil, "2"},
		{mirror("3"), nil, "3"}, {mirror("3"), mirror("4"), "4"}, {nil, nil, "4"}, {mirror("4"), nil, "4"}, {nil, nil, ""},
	} {
		s.aim(facts{mirrors: true, mirror: c.told})
		if c.observed != nil {
			s.retarget(c.observed)
		}
		require.Equal(t, c.want, s.ref.UID)
	}
}

// After a failure there is a pause, and the sink is asked what it has. The first conflict
// in a row takes none.
func TestFailed(t *testing.T) {
	other := errors.New("no answer")
	for _, c := range []struct {
		before int
		err    error
		pause  time.Duration
	}{
		{0, other, testLimits.first}, {1, other, 2 * testLimits.first}, {0, status.ErrConflict, 0},
		{1, status.ErrConflict, 2 * testLimits.first}, {9, status.ErrNotFound, testLimits.absent},
	} {
		s := slot{pod: podOf(v1.RestartPolicyAlways, "app"), status: &v1.PodStatus{}, base: &known{}, failures: c.before, retryAt: now.Add(time.Hour)}
		s.failed(c.err, now, testLimits)
		require.Equal(t, c.before+1, s.failures)
		require.Equal(t, c.err, s.err)
		require.Nil(t, s.base)
		require.True(t, s.check)
		require.Equal(t, errors.Is(c.err, status.ErrNotFound), s.absent)
		if c.pause == 0 {
			require.True(t, s.retryAt.IsZero())
			continue
		}
		require.LessOrEqual(t, s.retryAt.Sub(now), c.pause)
		require.Greater(t, s.retryAt.Sub(now), c.pause*3/4-1)
	}
}

// What was observed counts if it is newer, as far as that can be told; then what differs
// from what was written is written anew, unless the sink is known to keep it.
func TestSlotObservedVersions(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "app")
	was, is := &v1.PodStatus{Phase: v1.PodPending}, v1.PodStatus{Phase: v1.PodRunning}
	for name, c := range map[string]struct {
		version string
		status  v1.PodStatus
		settled bool
		takes   string // the version of base afterwards
		differs bool
	}{
		"older":                  {"4", is, false, "5", false},
		"the same":               {"5", is, false, "5", false},
		"newer":                  {"6", is, false, "6", true},
		"newer and alike":        {"6", *was, false, "6", false},
		"newer and kept":         {"6", is, true, "6", false},
		"newer than what's kept": {"6", v1.PodStatus{Phase: v1.PodFailed}, true, "6", true},
		"who knows":              {"x", is, false, "", true},
		"who knows, and alike":   {"x", *was, false, "x", false},
		"who knows, and is kept": {"x", is, true, "x", false},
	} {
		s := slot{pod: pod, ref: status.Ref{UID: pod.UID}, base: &known{version: "5", status: was}, absent: true, retryAt: now}
		if c.settled {
			settled := status.Normalize(pod, is)
			s.settled = &settled
		}
		*was = status.Normalize(pod, *was)
		s.observed(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: c.version}, Status: c.status})
		require.Equal(t, c.differs, s.differs, name)
		require.Equal(t, c.takes == "", s.base == nil, name)
		require.True(t, s.ready && !s.absent && s.retryAt.IsZero(), name)
		if s.base != nil {
			require.Equal(t, c.takes, s.base.version, name)
			require.Equal(t, c.takes == "5" || c.status.Phase == v1.PodPending, s.base.status == was, name)
		}
	}
}

// When the sink answers again, what failed is tried at once. A pod that the sink does not
// have, or whose end is near, goes on waiting.
func TestHurry(t *testing.T) {
	for name, c := range map[string]struct {
		failures int
		absent   bool
		waits    bool
	}{
		"failed": {failures: 1}, "failed often": {failures: 3},
		"not there": {failures: 1, absent: true, waits: true}, "about to end": {waits: true},
	} {
		s := slot{failures: c.failures, absent: c.absent, retryAt: now}
		s.hurry()
		require.Equal(t, c.waits, !s.retryAt.IsZero(), name)
	}
}

// A write waits for the end of a pod that is near, for a short time, unless writes fail.
func TestEndIsNear(t *testing.T) {
	for name, c := range map[string]struct {
		s    slot
		near bool
	}{
		"near":           {slot{held: true, deleting: true}, true},
		"not kept back":  {slot{deleting: true}, false},
		"not deleted":    {slot{held: true}, false},
		"writes fail":    {slot{held: true, deleting: true, failures: 1}, false},
		"for some time":  {slot{held: true, deleting: true, heldSince: now.Add(1 - nearEnd)}, true},
		"too long":       {slot{held: true, deleting: true, heldSince: now.Add(-nearEnd)}, false},
		"begins anew":    {slot{held: true, deleting: true, failures: 1, heldSince: now.Add(-nearEnd)}, false},
		"nothing of all": {slot{heldSince: now}, false},
	} {
		since := c.s.heldSince
		if since.IsZero() {
			since = now
		}
		require.Equal(t, c.near, c.s.endIsNear(now), name)
		if !c.s.held || !c.s.deleting || c.s.failures > 0 {
			since = time.Time{}
		}
		require.Equal(t, since, c.s.heldSince, name)
	}
}

// A sink's pod is removed when nothing is left of it, somebody wants it removed, and the
// sink knows how it ended. A mirror is somebody else's, and a Receiver removes nothing.
func TestToDelete(t *testing.T) {
	ended, runs := &v1.PodStatus{Phase: v1.PodFailed}, &v1.PodStatus{Phase: v1.PodRunning}
	for name, c := range map[string]struct {
		s    slot
		want bool
	}{
		"here to be deleted":        {slot{finished: true, deleting: true}, true},
		"and the sink knows":        {slot{finished: true, deleting: true, base: &known{status: ended}}, true},
		"and the sink knows not":    {slot{finished: true, deleting: true, base: &known{status: runs}}, false},
		"there to be deleted":       {slot{finished: true, base: &known{deleting: true, status: ended}}, true},
		"there, and not known":      {slot{finished: true, base: &known{deleting: true, status: runs}}, false},
		"not to be deleted":         {slot{finished: true, base: &known{status: ended}}, false},
		"perhaps not to be deleted": {slot{finished: true}, false},
		"something is left":         {slot{deleting: true, base: &known{deleting: true, status: ended}}, false},
		"a mirror":                  {slot{finished: true, deleting: true, mirror: true}, false},
		"a receiver's":              {slot{finished: true, deleting: true, receives: true}, false},
	} {
		require.Equal(t, c.want, c.s.toDelete(), name)
	}
}

// What a sink returns has to be the pod that was asked for; of a mirror it may be the one
// that has taken its place.
func TestVerify(t *testing.T) {
	failed := errors.New("failed")
	static := podOf(v1.RestartPolicyAlways, "app")
	mirror := static.DeepCopy()
	mirror.UID, mirror.Annotations = "new", map[string]string{podfacts.ConfigMirror: ""}
	other := mirror.DeepCopy()
	other.Name = "other"
	asked := static.DeepCopy()
	asked.UID = "asked"
	for name, c := range map[string]struct {
		mirror bool
		kind   callKind
		answer answer
		want   error
	}{
		"as asked":               {false, callGet, answer{pod: asked}, nil},
		"as patched":             {false, callPatch, answer{pod: asked}, nil},
		"an error":               {false, callGet, answer{err: failed, pod: asked}, failed},
		"nothing":                {false, callGet, answer{}, errNoPod},
		"nothing, patched":       {true, callPatch, answer{}, errNoPod},
		"deleted":                {false, callDelete, answer{}, nil},
		"received":               {false, callReceive, answer{}, nil},
		"not deleted":            {false, callDelete, answer{err: failed}, failed},
		"not received":           {false, callReceive, answer{err: failed}, failed},
		"another, patched":       {true, callPatch, answer{pod: mirror}, errWrongPod},
		"another":                {false, callGet, answer{pod: other}, errReplaced},
		"a mirror, not of ours":  {true, callGet, answer{pod: other}, errReplaced},
		"a mirror, made anew":    {true, callGet, answer{pod: mirror}, nil},
		"a mirror, we have none": {false, callGet, answer{pod: mirror}, errReplaced},
	} {
		s := slot{pod: static, mirror: c.mirror, ref: status.Ref{UID: "asked"}}
		require.Equal(t, c.want, s.verify(call{kind: c.kind, ref: s.ref}, c.answer), name)
		require.Equal(t, name == "a mirror, made anew", s.ref.UID == "new", name)
	}
}

// A mirror that cannot be translated is found by its name, for a sink with mirrors.
func TestObservedMirror(t *testing.T) {
	static := podOf(v1.RestartPolicyAlways, "app")
	static.UID, static.Annotations = "static", map[string]string{podfacts.ConfigSource: "file"}
	api := static.DeepCopy()
	api.UID, api.Annotations = "api", nil
	mirror := static.DeepCopy()
	mirror.UID, mirror.Annotations = "mirror", map[string]string{podfacts.ConfigMirror: ""}
	other := mirror.DeepCopy()
	other.Name = "other"
	unmarked := mirror.DeepCopy()
	unmarked.Annotations = nil
	of := func(pods ...*v1.Pod) *Writer {
		w := &Writer{entries: map[types.UID]*entry{"bare": {deliveries: []*delivery{nil, {}}}}}
		w.cfg.TranslateUID = func(uid types.UID) types.UID { return uid }
		for _, pod := range pods {
			w.entries[pod.UID] = &entry{pod: pod, deliveries: []*delivery{nil, {slot: slot{pod: pod}}}}
		}
		return w
	}
	for name, c := range map[string]struct {
		w       *Writer
		mirrors bool
		seen    *v1.Pod
		want    *v1.Pod
	}{
		"by its UID":        {of(static, api), false, api, api},
		"mirror":            {of(static), true, mirror, static},
		"of a sink without": {of(static), false, mirror, nil},
		"of another":        {of(static), true, other, nil},
		"of no static pod":  {of(api), true, mirror, nil},
		"no mirror":         {of(static), true, unmarked, nil},
		"without a pod":     {of(static), true, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "bare"}}, nil},
	} {
		d := (&target{w: c.w, index: 1, mirrors: c.mirrors}).observed(c.seen)
		require.Equal(t, c.want == nil, d == nil, name)
		if d != nil {
			require.Same(t, c.want, d.pod, name)
		}
	}
}

// The resync looks again at what was kept back or changed by others, and at a pod that has
// no mirror.
func TestTick(t *testing.T) {
	for name, c := range map[string]struct {
		before, want slot
	}{
		"nothing":        {slot{ref: status.Ref{UID: "u"}}, slot{ref: status.Ref{UID: "u"}}},
		"kept back":      {slot{ref: status.Ref{UID: "u"}, held: true}, slot{ref: status.Ref{UID: "u"}, held: true, check: true, ready: true}},
		"changed":        {slot{ref: status.Ref{UID: "u"}, differs: true}, slot{ref: status.Ref{UID: "u"}, check: true, ready: true}},
		"without mirror": {slot{}, slot{ready: true}},
	} {
		c.before.tick()
		require.Equal(t, c.want, c.before, name)
	}
}
