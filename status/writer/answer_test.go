package writer

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
