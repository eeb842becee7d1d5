package writer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/status"
)

// The end of a pod and its removal are the most urgent, then another phase or another
// Ready than the sink has.
func TestUrgency(t *testing.T) {
	type seen = phaseReady
	runs, ends := &v1.PodStatus{Phase: v1.PodRunning}, &v1.PodStatus{Phase: v1.PodFailed}
	ready := &v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{is(v1.PodScheduled, v1.ConditionTrue), is(v1.PodReady, v1.ConditionTrue)}}
	for name, c := range map[string]struct {
		s    slot
		want urgency
	}{
		"the end":               {slot{status: ends, seen: seen{phase: v1.PodRunning}}, urgentEnd},
		"the end is known":      {slot{status: ends, seen: seen{phase: v1.PodFailed}}, urgentDetail},
		"it ended otherwise":    {slot{status: ends, seen: seen{phase: v1.PodSucceeded}}, urgentTransition},
		"to be removed":         {slot{status: ends, seen: seen{phase: v1.PodFailed}, finished: true, deleting: true}, urgentEnd},
		"it begins":             {slot{status: runs}, urgentTransition},
		"turns ready":           {slot{status: ready, seen: seen{phase: v1.PodRunning, ready: v1.ConditionFalse}}, urgentTransition},
		"is ready as before":    {slot{status: ready, seen: seen{phase: v1.PodRunning, ready: v1.ConditionTrue}}, urgentDetail},
		"begins anew":           {slot{status: runs, seen: seen{phase: v1.PodFailed}}, urgentTransition},
		"runs, without a Ready": {slot{status: runs, seen: seen{phase: v1.PodRunning}}, urgentDetail},
	} {
		require.Equal(t, c.want, c.s.urgency(), name)
	}
}

// There is something to do about what was set, when nobody does it already.
func TestDue(t *testing.T) {
	s := slot{status: &v1.PodStatus{Phase: v1.PodRunning}, version: 1, ready: true, retryAt: now}
	u, at, ok := s.due()
	require.True(t, ok)
	require.Equal(t, urgentTransition, u)
	require.Equal(t, now, at)
	for name, s := range map[string]slot{
		"a turn is in progress": {status: s.status, version: 1, ready: true, busy: true},
		"nothing has happened":  {status: s.status, version: 1},
		"only restored":         {status: s.status, ready: true},
		"nothing is known":      {ready: true},
	} {
		_, _, ok := s.due()
		require.False(t, ok, name)
	}
}

// What the sink has not been told yet, and can be told.
func TestUntold(t *testing.T) {
	ended := &known{status: &v1.PodStatus{Phase: v1.PodFailed}}
	for name, c := range map[string]struct {
		s    slot
		want bool
	}{
		"behind":            {slot{version: 2, written: 1}, true},
		"not behind":        {slot{version: 2, written: 2}, false},
		"to be removed":     {slot{version: 2, written: 2, finished: true, deleting: true, base: ended}, true},
		"removed":           {slot{version: 2, written: 1, gone: true}, false},
		"not there":         {slot{version: 2, written: 1, absent: true}, false},
		"its mirror":        {slot{version: 2, written: 1, mirror: true, ref: status.Ref{UID: "m"}}, true},
		"without a mirror":  {slot{version: 2, written: 1, mirror: true}, false},
		"not yet asked for": {slot{version: 1, ref: status.Ref{}}, true},
	} {
		require.Equal(t, c.want, c.s.untold(), name)
	}
}

// A new status ends the pause after failures if it is worth more than what failed. That a
// pod is to be deleted stays known, that nothing is left of it only where it cannot begin
// anew.
func TestSlotSet(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "app")
	deleted, static := pod.DeepCopy(), pod.DeepCopy()
	deleted.DeletionTimestamp = &metav1.Time{Time: now}
	static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	runs, ends := &v1.PodStatus{Phase: v1.PodRunning}, &v1.PodStatus{Phase: v1.PodFailed}
	seen := phaseReady{phase: v1.PodRunning}
	for name, c := range map[string]struct {
		before             slot
		pod                *v1.Pod
		status             *v1.PodStatus
		deleting, finished bool
		waits              bool
	}{
		"a detail fails again":           {before: slot{failures: 2, failedAs: urgentDetail, seen: seen}, pod: pod, status: runs, waits: true},
		"the end, after a detail":        {before: slot{failures: 2, failedAs: urgentDetail, seen: seen}, pod: pod, status: ends},
		"the end, after an end":          {before: slot{failures: 2, failedAs: urgentEnd, seen: seen}, pod: pod, status: ends, waits: true},
		"nothing has failed":             {before: slot{seen: seen}, pod: pod, status: runs},
		"it is to be deleted":            {before: slot{seen: seen}, pod: deleted, status: runs, deleting: true},
		"it was to be deleted":           {before: slot{seen: seen, deleting: true}, pod: pod, status: runs, deleting: true},
		"nothing is left":                {before: slot{seen: seen, finished: true}, pod: pod, status: runs, finished: true},
		"nothing is left of a static":    {before: slot{seen: seen, finished: true}, pod: static, status: runs},
		"something is left of any other": {before: slot{seen: seen}, pod: static, status: runs},
	} {
		s := c.before
		s.version, s.retryAt = 4, now.Add(time.Hour)
		s.set(c.pod, c.status, now)
		require.Equal(t, c.waits, !s.retryAt.IsZero(), name)
		require.Equal(t, c.deleting, s.deleting, name)
		require.Equal(t, c.finished, s.finished, name)
		require.Equal(t, uint64(5), s.version, name)
		require.True(t, s.ready && s.since.Equal(now), name)
		require.True(t, s.pod == c.pod && s.status == c.status, name)
	}
}

// A pod that comes from the sink says once what that has. A static pod does not: it is its
// mirror that is at the sink.
func TestSlotTakesFromPod(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "app")
	static := pod.DeepCopy()
	static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	for want, s := range map[callKind]slot{callPatch: {fromPod: true}, callGet: {}} {
		s.set(pod, &v1.PodStatus{Phase: v1.PodRunning}, now)
		c, ok := s.next(facts{now: now})
		require.True(t, ok)
		require.Equal(t, want, c.kind)
		require.False(t, s.fromPod)
	}
	mirror := static.DeepCopy()
	mirror.UID = "mirror"
	s := slot{fromPod: true}
	s.set(static, &v1.PodStatus{Phase: v1.PodRunning}, now)
	c, ok := s.next(facts{mirrors: true, mirror: mirror, now: now})
	require.True(t, ok)
	require.Equal(t, callGet, c.kind)
	require.EqualValues(t, "mirror", c.ref.UID)
}
