package status

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Apply knows every field of a status: a field that a later version of the API adds
// fails the test until it is written too.
func TestApplyWritesEveryField(t *testing.T) {
	old, wanted := filled(1), filled(2)
	got := Apply(filled(1), old, wanted)
	require.True(t, equality.Semantic.DeepEqual(wanted, got), "%+v\n%+v", wanted, got)
	require.True(t, equality.Semantic.DeepEqual(filled(1), old), "the arguments stay")
	require.True(t, equality.Semantic.DeepEqual(filled(3), Apply(filled(3), old, filled(1))), "no difference, no change")
	require.True(t, equality.Semantic.DeepEqual(&v1.PodStatus{}, Apply(filled(1), old, &v1.PodStatus{})), "all is removed")
}

func TestApplyLists(t *testing.T) {
	ip := func(list ...string) *v1.PodStatus {
		s := &v1.PodStatus{}
		for _, text := range list {
			s.PodIPs = append(s.PodIPs, v1.PodIP{IP: text})
		}
		return s
	}
	require.Equal(t, ip("other", "b"), Apply(ip("a", "other"), ip("a"), ip("b")))
	require.Equal(t, ip("b"), Apply(ip(), ip("a"), ip("a", "b")), "what others have removed stays so")
	changed := is(v1.PodReady, v1.ConditionFalse)
	got := Apply(withConditions(is(v1.PodReady, v1.ConditionTrue), is("theirs", v1.ConditionTrue)),
		withConditions(is(v1.PodReady, v1.ConditionTrue)), withConditions(changed))
	require.Equal(t, []v1.PodCondition{is("theirs", v1.ConditionTrue), changed}, got.Conditions)
}
