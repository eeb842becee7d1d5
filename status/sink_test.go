package status

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Apply writes every field of a status. A field that a later version of the API adds fails the
// test until Apply writes it.
func TestApplyWritesEveryField(t *testing.T) {
	old, wanted := filled(1), filled(2)
	got := Patched(filled(1), old, wanted)
	require.True(t, equality.Semantic.DeepEqual(wanted, got), "%+v\n%+v", wanted, got)
	require.True(t, equality.Semantic.DeepEqual(filled(1), old), "the arguments are not changed")
	require.True(t, equality.Semantic.DeepEqual(filled(3), Patched(filled(3), old, filled(1))), "no difference, no change")
	require.True(t, equality.Semantic.DeepEqual(&v1.PodStatus{}, Patched(filled(1), old, &v1.PodStatus{})), "all is removed")
}

// Apply changes only differences. Elements that others changed, added or removed stay so.
func TestApplyLists(t *testing.T) {
	ip := func(list ...string) *v1.PodStatus {
		s := &v1.PodStatus{}
		for _, text := range list {
			s.PodIPs = append(s.PodIPs, v1.PodIP{IP: text})
		}
		return s
	}
	require.Equal(t, ip("other", "b"), Patched(ip("a", "other"), ip("a"), ip("b")))
	require.Equal(t, ip("b"), Patched(ip(), ip("a"), ip("a", "b")), "elements removed by others stay absent")

	c := func(kind, message string) v1.PodCondition {
		return v1.PodCondition{Type: v1.PodConditionType(kind), Message: message}
	}
	old := withConditions(c("same", "1"), c("changed", "1"), c("removed", "1"), c("missing", "1"))
	wanted := withConditions(c("added", "1"), c("same", "1"), c("changed", "2"), c("missing", "1"))
	there := withConditions(c("changed", "1"), c("same", "theirs"), c("removed", "1"), c("foreign", "1"))
	require.Equal(t, there, Patched(there, old, old))
	require.Equal(t, []v1.PodCondition{c("foreign", "1"), c("added", "1"), c("same", "theirs"), c("changed", "2")}, Patched(there, old, wanted).Conditions)
	require.Equal(t, "ns/name(uid)", Ref{Namespace: "ns", Name: "name", UID: "uid"}.String())
}
