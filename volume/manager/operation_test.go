package manager

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume"
)

// toExpand returns the capacity of the PersistentVolume if the plugin can expand and the volume
// is smaller.
func TestToExpand(t *testing.T) {
	grows := desiredVolume{expands: true, spec: claimedVolume("disk", "2").spec}
	for name, c := range map[string]struct {
		v    volumeState
		want int64
	}{
		"never expanded":                {volumeState{desiredVolume: grows}, 2},
		"expanded to less":              {volumeState{desiredVolume: grows, actualVolume: actualVolume{expandedTo: 1}}, 2},
		"has its size":                  {volumeState{desiredVolume: grows, actualVolume: actualVolume{expandedTo: 2}}, 0},
		"shared, expanded per pod only": {volumeState{desiredVolume: grows, actualVolume: actualVolume{expandedTo: 2}, shared: &sharedState{}}, 2},
		"shared, has its size":          {volumeState{desiredVolume: grows, shared: &sharedState{expandedTo: 2}}, 0},
		"plugin without Expand":         {volumeState{desiredVolume: desiredVolume{spec: grows.spec}}, 0},
		"inline volume":                 {volumeState{desiredVolume: desiredVolume{expands: true, spec: &volume.Spec{}}}, 0},
		"only the folder was found":     {volumeState{}, 0},
		"a volume without a capacity":   {volumeState{desiredVolume: desiredVolume{expands: true, spec: claimedVolume("disk", "0").spec}}, 0},
	} {
		require.Equal(t, c.want, c.v.toExpand(), name)
	}
}

// queued returns a script in which one volume waits for a refresh slot.
func queued(t *testing.T) (s *script, last types.UID) {
	s = newScript(t)
	var uids []types.UID
	for i := range maxRefreshing + 1 {
		uids = append(uids, types.UID(fmt.Sprint("u", i)))
		s.prepare(uids[i], inlineVolume("x"))
		s.endOf(doMount, outcome{})
	}
	for _, uid := range uids {
		s.prepare(uid, inlineVolume("x"))
	}
	last = uids[maxRefreshing]
	require.Nil(t, s.rc.pods[last].names["x"].volume.op)
	require.Equal(t, "the refreshes of other volumes", s.rc.explain(s.rc.pods[last], s.now)[0].WaitsFor)
	return s, last
}

// Stuck refreshes occupy their slots only until they count as stuck.
func TestStuckRefreshesMakeRoom(t *testing.T) {
	s, last := queued(t)
	s.advance(s.rc.limit + operationGrace)
	require.NotNil(t, s.rc.pods[last].names["x"].volume.op)
	s.finish()
}

// A pod can return while its earlier volume waits for a refresh slot.
func TestPrepareAgainWhileQueued(t *testing.T) {
	s, last := queued(t)
	s.release(last)
	s.endOf(doScan, outcome{})
	s.endOf(doUnmount, outcome{})
	s.endOf(doFinish, outcome{})
	s.prepare(last, inlineVolume("x"))
	require.Equal(t, doMount, s.rc.pods[last].names["x"].volume.op.kind, "a first mount is no refresh")
	s.finish()
}

// If a claim becomes another volume of the same name, the earlier volume is no longer used.
func TestAnotherVolumeOfThatName(t *testing.T) {
	s := newScript(t)
	disk := claimedVolume("disk", "1Gi")
	s.prepare("a", disk)
	v := s.rc.pods["a"].names["disk"].volume
	before := v.shared
	disk.shared = "h-new"
	s.prepare("a", disk)
	require.Same(t, v, s.rc.pods["a"].names["disk"].volume)
	require.Equal(t, volume.ID{Plugin: "shared", Volume: "h-new"}, v.shared.id)
	require.Empty(t, before.users)
	s.finish()
}

// An inline volume does not block a claim of the same name.
func TestOwnVolumeHoldsNoClaim(t *testing.T) {
	s := newScript(t)
	s.prepare("a", inlineVolume("data"))
	s.endOf(doMount, outcome{})
	claim := claimedVolume("data", "1Gi")
	claim.spec.Persistent.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	claim.plugin, claim.shared = own, ""
	s.prepare("b", claim)
	s.endOf(doMount, outcome{})
	require.True(t, s.rc.pods["b"].ready())
	s.finish()
}

// A successful unstage resets the state of a shared volume except the need for an attachment.
// The attachment itself is verified again.
func TestEndOfUnstage(t *testing.T) {
	staged := sharedState{
		stage: StateMounted, path: "/s", found: true, expandedTo: 1,
		verified: true, attachable: true, attached: true,
	}
	failed := staged
	failed.stage = StateUncertain
	for name, c := range map[string]struct {
		out  outcome
		want sharedState
	}{
		"done":   {outcome{}, sharedState{verified: true, attachable: true}},
		"failed": {outcome{err: errFailed}, failed},
	} {
		got := staged
		got.end(&operation{kind: doUnstage}, &c.out)
		require.Equal(t, c.want, got, name)
	}
}

// V32: the back-off doubles up to a bound, which is lower for reads of claims. The first
// failure of another operation restarts it.
func TestBackoff(t *testing.T) {
	now := time.Unix(1000, 0)
	for k, want := range map[kind]time.Duration{doMount: 122 * time.Second, doStage: 122 * time.Second, doNothing: 15 * time.Second} {
		var r retry
		for _, delay := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
			r.failed(k, now)
			require.Equal(t, retry{kind: k, delay: delay, at: now.Add(delay)}, r)
		}
		for range 10 {
			r.failed(k, now)
		}
		require.Equal(t, want, r.delay)
		r.failed(doUnmount, now)
		require.Equal(t, retry{kind: doUnmount, delay: 500 * time.Millisecond, at: now.Add(500 * time.Millisecond)}, r)
	}
}

// Two requests during a first mount cause one mount. If an object changes during the mount,
// another mount follows, because the first may have the old content.
func TestObjectChangeDuringFirstMount(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *script)
		again  bool
	}{
		"prepared again":     {func(s *script) { s.prepare("a", inlineVolume("x")) }, false},
		"its object changes": {func(s *script) { s.rc.objectChanged(object); s.next() }, true},
	} {
		s := newScript(t)
		s.prepare("a", inlineVolume("x"))
		c.change(s)
		s.endOf(doMount, outcome{})
		require.Equal(t, c.again, s.indexOf(doMount) >= 0, name)
		s.finish()
	}
}

// TestEndOfOperations checks the state of a volume after each outcome of an operation.
func TestEndOfOperations(t *testing.T) {
	now, later := time.Unix(1000, 0), time.Unix(2000, 0)
	failed := &outcome{err: errFailed}
	there := volume.Mounted{Path: "/v", RefreshAt: later}
	mounted := func() *volumeState {
		return &volumeState{actualVolume: actualVolume{state: StateMounted, since: now, mounted: volume.Mounted{Path: "/v"}, expandedTo: 1, refreshAt: later}}
	}
	end := func(op operation, out *outcome) *volumeState {
		v := mounted()
		v.end(&op, out, later)
		return v
	}
	want := mounted()
	require.Equal(t, want, end(operation{kind: doExpand, size: 2}, failed))
	require.Equal(t, want, end(operation{kind: doUnmount}, failed))
	want.remount = true
	require.Equal(t, want, end(operation{kind: doMount, again: true}, failed))
	want = mounted()
	want.expandedTo = 2
	require.Equal(t, want, end(operation{kind: doExpand, size: 2}, &outcome{size: 2}))
	require.Equal(t, &volumeState{actualVolume: actualVolume{since: later}}, end(operation{kind: doUnmount}, &outcome{}))
	want = mounted()
	want.mounted, want.refreshAt = there, later.Add(time.Second)
	require.Equal(t, want, end(operation{kind: doMount, again: true}, &outcome{mounted: there}))
	v := &volumeState{actualVolume: actualVolume{found: true}}
	v.end(&operation{kind: doMount}, &outcome{mounted: there}, now)
	require.Equal(t, &volumeState{actualVolume: actualVolume{state: StateMounted, since: now, mounted: there, refreshAt: later}}, v)
	v = &volumeState{}
	v.end(&operation{kind: doMount}, failed, now)
	require.Equal(t, &volumeState{actualVolume: actualVolume{since: now}}, v)
}
