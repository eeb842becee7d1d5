package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/status/internal/podstatus"
)

// LastTransitionTime changes with the status of a condition, not with its reason. Without a
// better time, or if time would go backwards, it is the current time.
func TestFollowConditions(t *testing.T) {
	earlier, later := before.Add(-time.Hour), before.Add(time.Minute)
	changed := func(kind v1.PodConditionType, is v1.ConditionStatus, at time.Time) *v1.PodCondition {
		return &v1.PodCondition{Type: kind, Status: is, Reason: at.String(), LastTransitionTime: metav1.NewTime(at)}
	}
	for name, c := range map[string]struct {
		old, is *v1.PodCondition
		want    time.Time
	}{
		"the same, with another reason": {changed(v1.PodReady, v1.ConditionTrue, before), changed(v1.PodReady, v1.ConditionTrue, later), before},
		"the same, without a time":      {changed(v1.PodReady, v1.ConditionTrue, before), changed(v1.PodReady, v1.ConditionTrue, time.Time{}), before},
		"the same, no times":            {changed(v1.PodReady, v1.ConditionTrue, time.Time{}), changed(v1.PodReady, v1.ConditionTrue, time.Time{}), now},
		"the same, a first time":        {changed(v1.PodReady, v1.ConditionTrue, time.Time{}), changed(v1.PodReady, v1.ConditionTrue, later), later},
		"changed afterwards":            {changed(v1.PodReady, v1.ConditionTrue, before), changed(v1.PodReady, v1.ConditionFalse, later), later},
		"changed, without a time":       {changed(v1.PodReady, v1.ConditionTrue, before), changed(v1.PodReady, v1.ConditionFalse, time.Time{}), now},
		"changed before":                {changed(v1.PodReady, v1.ConditionTrue, before), changed(v1.PodReady, v1.ConditionFalse, earlier), now},
		"changed in the same moment":    {changed(v1.PodReady, v1.ConditionTrue, before), changed(v1.PodReady, v1.ConditionFalse, before), now},
		"new":                           {nil, changed(v1.PodReady, v1.ConditionTrue, later), later},
		"new, without a time":           {nil, changed(v1.PodReady, v1.ConditionTrue, time.Time{}), now},
		"shared condition":              {changed(v1.DisruptionTarget, v1.ConditionTrue, before), changed(v1.DisruptionTarget, v1.ConditionTrue, later), before},
		"foreign condition":             {changed("example.com/x", v1.ConditionTrue, before), changed("example.com/x", v1.ConditionTrue, later), later},
		"pending resize":                {changed(v1.PodResizePending, v1.ConditionTrue, before), changed(v1.PodResizePending, v1.ConditionTrue, later), later},
		"resize in progress":            {changed(v1.PodResizeInProgress, v1.ConditionTrue, before), changed(v1.PodResizeInProgress, v1.ConditionTrue, later), later},
	} {
		was, given := v1.PodStatus{}, v1.PodStatus{Conditions: []v1.PodCondition{*c.is}}
		if c.old != nil {
			was.Conditions = []v1.PodCondition{*c.old}
		}
		got := podstatus.Follow(was, given, now)
		require.True(t, got.Conditions[0].LastTransitionTime.Time.Equal(c.want), "%s: %s", name, got.Conditions[0].LastTransitionTime)
		require.Equal(t, c.is.Reason, got.Conditions[0].Reason, name)
		require.Equal(t, *c.is, given.Conditions[0], name)
	}
}

// The start time of a pod never changes, and an observed generation never decreases.
func TestFollowStart(t *testing.T) {
	at := func(t time.Time) *metav1.Time { return &metav1.Time{Time: t} }
	for name, c := range map[string]struct{ was, is, want *metav1.Time }{
		"started before": {at(before), nil, at(before)}, "started before, another time given": {at(before), at(now), at(before)},
		"given time": {nil, at(before), at(before)}, "no time": {nil, nil, at(now)},
	} {
		require.Equal(t, c.want, podstatus.Follow(v1.PodStatus{StartTime: c.was}, v1.PodStatus{StartTime: c.is}, now).StartTime, name)
	}
	for _, c := range [][3]int64{{1, 2, 2}, {2, 1, 2}, {3, 3, 3}} {
		require.Equal(t, c[2], podstatus.Follow(v1.PodStatus{ObservedGeneration: c[0]}, v1.PodStatus{ObservedGeneration: c[1]}, now).ObservedGeneration)
	}
}

// Own omits the fields that other components own.
func TestOwn(t *testing.T) {
	s := &v1.PodStatus{
		Phase: v1.PodRunning, NominatedNodeName: "other", ResourceClaimStatuses: []v1.PodResourceClaimStatus{{Name: "c"}},
		ExtendedResourceClaimStatus: &v1.PodExtendedResourceClaimStatus{}, NodeAllocatableResourceClaimStatuses: []v1.NodeAllocatableResourceClaimStatus{{}},
		Conditions: []v1.PodCondition{is(v1.PodReady, v1.ConditionTrue), is("example.com/x", v1.ConditionTrue), is(v1.PodScheduled, v1.ConditionTrue), is(v1.DisruptionTarget, v1.ConditionTrue)},
	}
	given := s.DeepCopy()
	own := podstatus.Own(s)
	require.Equal(t, given, s)
	var kinds []v1.PodConditionType
	for _, c := range own.Conditions {
		kinds = append(kinds, c.Type)
	}
	require.Contains(t, kinds, v1.PodReady)
	require.Contains(t, kinds, v1.DisruptionTarget)
	require.NotContains(t, kinds, v1.PodConditionType("example.com/x"))
	own.Conditions = nil
	require.Equal(t, v1.PodStatus{Phase: v1.PodRunning}, own)
}
