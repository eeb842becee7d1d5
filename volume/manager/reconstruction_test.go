package manager

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume"
)

// diskOnDisk is the shared volume "disk" in a pod's folders.
var diskOnDisk = []found{{key: volumeKey{plugin: "shared", name: "disk"}, plugin: shared, shared: "h-disk"}}

func newScriptReading(t testing.TB) *script {
	s := newScript(t)
	s.rc.addUnread([]types.UID{"a"})
	s.next()
	return s
}

// A volume that an earlier agent staged can be found during the verification of its attachment.
// A Stage that then fails does not reset it.
func TestStagedIsFoundDuringVerify(t *testing.T) {
	for name, find := range map[string]func(s *script){
		"listed as staged":             func(s *script) { s.endOf(doList, outcome{ids: []string{"h-disk"}}) },
		"found in the folder of a pod": func(s *script) { s.endOf(doList, outcome{}); s.endOf(doRead, outcome{found: diskOnDisk}) },
	} {
		s := newScriptReading(t)
		s.prepare("b", claimedVolume("disk", "1Gi"))
		find(s)
		s.endOf(doVerify, outcome{})
		require.True(t, s.running[s.indexOf(doStage)].stage.Found, name)
		s.endOf(doStage, outcome{err: errFailed})
		require.Equal(t, StateUncertain, s.rc.shared[volume.ID{Plugin: "shared", Volume: "h-disk"}].stage, name)
		s.finish()
	}
}

// A volume that is listed during its Stage may be older. If the Stage fails, the volume must be
// unstaged.
func TestStagedIsListedDuringStage(t *testing.T) {
	s := newScript(t)
	s.prepare("a", claimedVolume("disk", "1Gi"))
	s.endOf(doVerify, outcome{})
	require.True(t, s.running[s.indexOf(doStage)].stage.Found, "the listing of staged volumes is not complete")
	require.False(t, s.rc.allListed(), "the volumes in use are not complete")
	s.endOf(doList, outcome{ids: []string{"h-disk"}})
	require.True(t, s.rc.allListed())
	s.endOf(doStage, outcome{err: errFailed})
	require.Equal(t, StateUncertain, s.rc.shared[volume.ID{Plugin: "shared", Volume: "h-disk"}].stage)
	s.finish()
}

// The state of a volume that this agent staged takes precedence over folders on the disk.
func TestStagedAndFound(t *testing.T) {
	s := newScriptReading(t)
	s.prepare("b", claimedVolume("disk", "1Gi"))
	for _, k := range []kind{doVerify, doList, doStage, doMount} {
		s.endOf(k, outcome{})
	}
	s.endOf(doRead, outcome{found: diskOnDisk})
	staged := s.rc.shared[volume.ID{Plugin: "shared", Volume: "h-disk"}]
	require.Equal(t, StateMounted, staged.stage)
	require.False(t, staged.found)
	require.Len(t, staged.users, 2)
	s.finish()
}

// A volume that is found on the disk during its first mount may be older. A failed mount does
// not reset it, not even the second time.
func TestFoundDuringMount(t *testing.T) {
	s := newScriptReading(t)
	s.prepare("a", inlineVolume("x"))
	s.endOf(doRead, outcome{err: errFailed})
	require.True(t, s.running[s.indexOf(doMount)].mount.Found, "the folders of the pod were not read")
	s.advance(time.Second)
	s.endOf(doRead, outcome{found: []found{{key: volumeKey{plugin: "own", name: "x"}, plugin: own}}})
	s.endOf(doMount, outcome{err: errFailed})
	require.Equal(t, StateUncertain, s.rc.pods["a"].names["x"].volume.state)
	s.advance(time.Second)
	require.True(t, s.running[s.indexOf(doMount)].mount.Found)
	s.endOf(doMount, outcome{})
	require.False(t, s.rc.pods["a"].names["x"].volume.found)
	s.finish()
}

// A volume that is found in another pod's folder during its Stage is older, even if the listing
// lacks it. If the Stage fails, it must be unstaged.
func TestStagedIsFoundDuringStage(t *testing.T) {
	s := newScriptReading(t)
	s.prepare("b", claimedVolume("disk", "1Gi"))
	s.endOf(doList, outcome{})
	s.endOf(doVerify, outcome{})
	require.False(t, s.running[s.indexOf(doStage)].stage.Found)
	s.endOf(doRead, outcome{found: diskOnDisk})
	s.endOf(doStage, outcome{err: errFailed})
	require.Equal(t, StateUncertain, s.rc.shared[volume.ID{Plugin: "shared", Volume: "h-disk"}].stage)
	s.advance(time.Second)
	require.True(t, s.running[s.indexOf(doStage)].stage.Found)
	s.finish()
}

// If a pod had no folders before a mount, the result of the mount does not count as found. This
// is also true if the pod is released and returns during the mount. The next failed mount then
// resets the volume.
func TestOwnMountIsNotFound(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want State
	}{"uncertain": {volume.Uncertain(errFailed), StateUncertain}, "transient": {volume.Transient(errFailed), StateNotMounted}} {
		s := newScript(t)
		s.prepare("a", inlineVolume("x"))
		require.False(t, s.running[s.indexOf(doMount)].mount.Found)
		s.release("a")
		s.endOf(doScan, outcome{found: []found{{key: volumeKey{plugin: "own", name: "x"}, plugin: own}}})
		s.prepare("a", inlineVolume("x"))
		s.endOf(doMount, outcome{err: c.err, ended: true})
		v := s.rc.pods["a"].names["x"].volume
		require.Equal(t, c.want, v.state, name)
		s.advance(time.Second)
		require.False(t, s.running[s.indexOf(doMount)].mount.Found, name)
		s.endOf(doMount, outcome{err: errFailed})
		require.Equal(t, StateNotMounted, v.state, name)
		s.finish()
	}
}

// A scan of an earlier release does not count for a pod that was prepared since: the next
// release scans again.
func TestScanOfAnEarlierRelease(t *testing.T) {
	s := newScript(t)
	s.prepare("a", inlineVolume("x"))
	s.endOf(doMount, outcome{})
	s.release("a")
	s.prepare("a", inlineVolume("x"))
	s.release("a")
	s.endOf(doScan, outcome{})
	require.Negative(t, s.indexOf(doUnmount))
	s.endOf(doScan, outcome{})
	s.endOf(doUnmount, outcome{})
	s.finish()
}

// A pod without volumes on the disk is forgotten, unless it was prepared or released in the
// meantime.
func TestEmptyPodIsForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(s *script)
		kept      bool
	}{
		"unknown pod":  {func(*script) {}, false},
		"prepared":     {func(s *script) { s.prepare("a") }, true},
		"released":     {func(s *script) { s.release("a") }, true},
		"has a volume": {func(s *script) { s.rc.volume(s.rc.pod("a"), volumeKey{plugin: "own", name: "x"}, own) }, true},
	} {
		s := newScriptReading(t)
		c.meanwhile(s)
		s.endOf(doRead, outcome{})
		require.Equal(t, c.kept, s.rc.pods["a"] != nil, name)
		s.finish()
	}
}

// A pod that returns during the removal of its folders is not forgotten.
func TestPrepareAgainDuringFinish(t *testing.T) {
	s := newScript(t)
	s.prepare("a")
	s.release("a")
	s.endOf(doScan, outcome{})
	s.prepare("a")
	s.endOf(doFinish, outcome{})
	require.NotNil(t, s.rc.pods["a"])
	s.finish()
	require.Empty(t, s.rc.pods)
}
