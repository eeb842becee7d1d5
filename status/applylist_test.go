package status

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// What did not change stays as it is there, and what others have is theirs.
func TestApplyList(t *testing.T) {
	c := func(kind, message string) v1.PodCondition {
		return v1.PodCondition{Type: v1.PodConditionType(kind), Message: message}
	}
	old := []v1.PodCondition{c("same", "1"), c("changed", "1"), c("removed", "1"), c("missing", "1")}
	want := []v1.PodCondition{c("added", "1"), c("same", "1"), c("changed", "2"), c("missing", "1")}
	there := []v1.PodCondition{c("changed", "1"), c("same", "theirs"), c("removed", "1"), c("foreign", "1")}
	list := there
	key := func(c *v1.PodCondition) string { return string(c.Type) }
	applyList(&list, old, old, key)
	require.Equal(t, there, list)
	applyList(&list, old, want, key)
	require.Equal(t, []v1.PodCondition{c("foreign", "1"), c("added", "1"), c("same", "theirs"), c("changed", "2")}, list)
	require.Equal(t, "ns/name(uid)", Ref{Namespace: "ns", Name: "name", UID: "uid"}.String())
}
