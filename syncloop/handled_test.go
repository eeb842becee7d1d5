package syncloop

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// A source without pods is told of once, and only as the first that is told of it.
func TestChangesOfNoPods(t *testing.T) {
	pod := []*v1.Pod{testPod("a", "a")}
	none := []Change{{Op: OpAdd}}
	type call struct {
		Change
		worked bool
	}
	for name, c := range map[string]struct {
		calls []call
		want  []Change
	}{
		"first set":           {nil, none},
		"panicked":            {[]call{{Change{Op: OpAdd}, false}}, none},
		"told":                {[]call{{Change{Op: OpAdd}, true}}, nil},
		"pods gone":           {[]call{{Change{OpAdd, pod}, true}, {Change{OpRemove, pod}, true}}, nil},
		"panicked over a pod": {[]call{{Change{OpAdd, pod}, false}}, []Change{{OpRemove, pod}}},
	} {
		set := newHandledSet()
		for _, call := range c.calls {
			set.note(call.Change, call.worked)
		}
		require.Equal(t, c.want, set.changes(nil), name)
	}
}
