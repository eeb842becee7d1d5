package garbage

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg/observed"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// gc makes a container that is age seconds old.
func gc(uid types.UID, name, id string, age int, state observed.State) container {
	return container{unit: unit{uid: uid, name: name}, id: id, state: state, created: now.Add(-time.Duration(age) * time.Second)}
}

func TestPlanContainers(t *testing.T) {
	exited := observed.StateExited
	all := []container{
		gc("1", "a", "a-new", 10, exited), gc("1", "a", "a-mid", 20, exited), gc("1", "a", "a-old", 30, exited),
		gc("1", "b", "b-runs", 40, observed.StateRunning), gc("1", "b", "b-old", 50, exited),
		gc("2", "a", "other", 60, exited), gc("2", "c", "starting", 1, observed.StateCreated), gc("2", "c", "stale", 5, observed.StateCreated),
		gc("3", "a", "lost", 70, observed.StateUnknown),
	}
	given := slices.Clone(all)
	none := func(types.UID) bool { return false }
	for _, tc := range []struct {
		name      string
		policy    Policy
		removable func(types.UID) bool
		want      []string
	}{
		{"default keeps the newest", Policy{}, none, []string{"a-old", "a-mid"}},
		{"two each", Policy{MaxPerContainer: 2}, none, []string{"a-old"}},
		{"no limit", Policy{MaxPerContainer: -1}, none, nil},
		{"none but the newest, and what is about to start", Policy{KeepNone: true}, none, []string{"b-old", "a-old", "a-mid", "stale"}},
		{"young ones stay", Policy{KeepNone: true, MinAge: 25 * time.Second}, none, []string{"b-old", "a-old"}},
		{"of a pod that may go, young ones stay", Policy{MinAge: 25 * time.Second}, func(uid types.UID) bool { return uid != "2" }, []string{"lost", "b-old", "a-old"}},
		{"a pod that may go", Policy{MaxPerContainer: -1}, func(uid types.UID) bool { return uid == "2" }, []string{"other", "stale", "starting"}},
		{"as many as may stay in all", Policy{MaxPerContainer: -1, MaxTotal: 7}, none, nil},
		{"in all, a share each", Policy{MaxPerContainer: -1, MaxTotal: 5}, none, []string{"a-old", "a-mid"}},
		{"in all, fewer than there are names", Policy{MaxPerContainer: -1, MaxTotal: 4}, none, []string{"b-old", "a-old", "a-mid"}},
		{"in all, then the oldest", Policy{MaxPerContainer: -1, MaxTotal: 3}, none, []string{"b-old", "a-old", "a-mid", "stale"}},
		{"in all, but not what is needed", Policy{MaxTotal: 1}, none, []string{"b-old", "a-old", "a-mid", "stale"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, c := range planContainers(all, tc.policy, tc.removable, now) {
				got = append(got, c.id)
			}
			require.Equal(t, tc.want, got, "oldest first")
			require.Equal(t, given, all, "the list is the caller's")
		})
	}
}

// A clock that was set back makes no old instance the newest.
func TestAttemptsOrderInstances(t *testing.T) {
	first, second := gc("1", "a", "first", 10, observed.StateExited), gc("1", "a", "second", 20, observed.StateExited)
	second.attempt = 1
	plan := planContainers([]container{first, second}, Policy{}, func(types.UID) bool { return false }, now)
	require.Len(t, plan, 1)
	require.Equal(t, "first", plan[0].id)
	sandboxes := []sandbox{{uid: "1", id: "first", created: now}, {uid: "1", id: "second", attempt: 1}}
	require.Equal(t, []string{"first"}, planSandboxes(sandboxes, func(types.UID) bool { return false }))
}

func TestPlanSandboxes(t *testing.T) {
	at := func(age int) time.Time { return now.Add(-time.Duration(age) * time.Second) }
	all := []sandbox{
		{uid: "1", id: "new", created: at(1)}, {uid: "1", id: "old", created: at(2)}, {uid: "1", id: "holds", holds: true, created: at(3)},
		{uid: "2", id: "dead", created: at(5)}, {uid: "2", id: "ready", ready: true, created: at(4)},
		{uid: "3", id: "gone", created: at(6)}, {uid: "3", id: "gone-holds", holds: true, created: at(7)},
	}
	given := slices.Clone(all)
	require.Equal(t, []string{"old", "dead", "gone"}, planSandboxes(all, func(uid types.UID) bool { return uid == "3" }))
	require.Equal(t, []string{"old", "dead"}, planSandboxes(all, func(types.UID) bool { return false }))
	require.Equal(t, given, all, "the list is the caller's")
}

// The folders of logs of all pods that may go and of which nothing lives, in order.
func TestPlanLogDirs(t *testing.T) {
	dirs := map[types.UID][]string{"lives": {"a"}, "wanted": {"b"}}
	var want []string
	for _, c := range "cdefgh" {
		dirs[types.UID(c)] = []string{string(c) + "2", string(c) + "1"}
		want = append(want, string(c)+"1", string(c)+"2")
	}
	got := planLogDirs(dirs, map[types.UID]bool{"lives": true}, func(uid types.UID) bool { return uid != "wanted" })
	require.Equal(t, want, got)
	require.Empty(t, planLogDirs(nil, nil, nil))
}
