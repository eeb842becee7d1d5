package volume

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// A volume grows to what its PersistentVolume says, if its plugin can do that.
func TestToExpand(t *testing.T) {
	spec := claimedVolume("disk", "2").spec
	for name, c := range map[string]struct {
		v    volumeState
		want int64
	}{
		"never was":                    {volumeState{expands: true, spec: spec}, 2},
		"was to less":                  {volumeState{expands: true, spec: spec, expandedTo: 1}, 2},
		"has its size":                 {volumeState{expands: true, spec: spec, expandedTo: 2}, 0},
		"a shared one":                 {volumeState{expands: true, spec: spec, expandedTo: 2, shared: &sharedState{}}, 2},
		"a shared one has its size":    {volumeState{expands: true, spec: spec, shared: &sharedState{expandedTo: 2}}, 0},
		"a plugin that cannot":         {volumeState{spec: spec}, 0},
		"a pod's own":                  {volumeState{expands: true, spec: &Spec{}}, 0},
		"only its folder was found":    {volumeState{}, 0},
		"a claim that does not say it": {volumeState{expands: true, spec: claimedVolume("disk", "0").spec}, 0},
	} {
		require.Equal(t, c.want, c.v.toExpand(), name)
	}
}

// A shared volume is expanded for a pod that has it mounted and uses it, while no pod does
// anything with it.
func TestExpandedFor(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		change func(v *volumeState)
		want   kind
	}{
		"mounted":           {func(*volumeState) {}, doExpand},
		"not used any more": {func(v *volumeState) { v.wanted = false }, doNothing},
		"not mounted yet":   {func(v *volumeState) { v.state = StateNotMounted }, doNothing},
		"has its size":      {func(v *volumeState) { v.shared.expandedTo = 2 }, doNothing},
	} {
		s := &sharedState{stage: StateMounted, attached: true, expandedTo: 1}
		v := &volumeState{pod: &podState{}, spec: claimedVolume("disk", "2").spec, shared: s, expands: true, wanted: true, state: StateMounted}
		s.users = set[*volumeState]{v: {}}
		c.change(v)
		w := newWorld(nil, time.Minute)
		require.Equal(t, step{do: c.want}, s.next(w, now), name)
		require.Equal(t, c.want == doExpand, s.user(doExpand) == v, name)
		v.op = &operation{kind: doMount, began: now}
		require.Equal(t, step{why: v.op.String(), on: v}, s.next(w, now), name)
	}
}

// Refreshes that never end hold up others until their time is over, not for ever.
func TestStuckRefreshesMakeRoom(t *testing.T) {
	s := newScript(t)
	var uids []types.UID
	for i := range maxRefreshing + 1 {
		uids = append(uids, types.UID(fmt.Sprint("u", i)))
		s.want(uids[i], inlineVolume("x"))
		s.endOf(doMount, outcome{})
	}
	for _, uid := range uids {
		s.want(uid, inlineVolume("x"))
	}
	last := s.w.pods[uids[maxRefreshing]].names["x"].volume
	require.Nil(t, last.op)
	s.pass(s.w.limit + patience)
	require.NotNil(t, last.op)
	s.finish()
}
