package volume

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What people read of a volume: what goes on, or is waited for, how it failed, and when it
// is tried again.
func TestVolumeStateString(t *testing.T) {
	at := time.Unix(1000, 0).UTC()
	for want, s := range map[string]VolumeState{
		"v: Mounted":                         {State: StateMounted},
		"v: NotMounted, waits for its claim": {WaitsFor: "its claim"},
		"v: Mounted, last error: failed":     {State: StateMounted, LastError: errFailed},
		"v: NotMounted, waits for its claim, last error: failed, next try at 1970-01-01T00:16:40Z": {WaitsFor: "its claim", LastError: errFailed, NextTry: at},
		"v: NotMounted, mount since 1970-01-01T00:16:40Z":                                          {WaitsFor: "mount", Operation: "mount", RunningSince: at},
		"v: NotMounted, mount since 1970-01-01T00:16:40Z although its time is over":                {Operation: "mount", RunningSince: at, Stuck: true},
	} {
		s.Name = "v"
		require.Equal(t, want, s.String())
	}
}

// waiting is an actor of which it is known what it waits for.
type waiting struct {
	unit
	step step
}

func (a *waiting) next(*world, time.Time) step { return a.step }

// The next try is that of what is waited for at last, and is none once that runs or waits
// for something else than time.
func TestExplainUnit(t *testing.T) {
	now := time.Unix(1000, 0)
	earlier, later := now.Add(-time.Second), now.Add(time.Second)
	failed := func(next time.Time) unit { return unit{err: errFailed, errAt: earlier, retry: retry{at: next}} }
	running := func(u unit) unit { u.op = &operation{kind: doStage, began: earlier}; return u }
	pause := step{why: "the next try to mount", at: later}
	for name, c := range map[string]struct {
		actor actor
		want  VolumeState
	}{
		"nothing to do": {&waiting{}, VolumeState{}},
		"a pause":       {&waiting{failed(later), pause}, VolumeState{WaitsFor: pause.why, LastError: errFailed, LastErrorAt: earlier, NextTry: later}},
		"another pod has it": {&waiting{failed(earlier), step{why: "pod x"}},
			VolumeState{WaitsFor: "pod x", LastError: errFailed, LastErrorAt: earlier}},
		"something runs after another thing has failed": {&waiting{running(failed(later)), step{why: "stage"}},
			VolumeState{WaitsFor: "stage", LastError: errFailed, LastErrorAt: earlier, Operation: "stage", RunningSince: earlier}},
		"one that runs": {&waiting{failed(later), step{why: "its staging", on: &waiting{unit: running(unit{})}}},
			VolumeState{WaitsFor: "its staging", LastError: errFailed, LastErrorAt: earlier, Operation: "stage", RunningSince: earlier}},
		"the pause of another": {&waiting{step: step{why: "its staging", on: &waiting{failed(later), pause}}},
			VolumeState{WaitsFor: "its staging", LastError: errFailed, LastErrorAt: earlier, NextTry: later}},
	} {
		var got VolumeState
		newWorld(nil, time.Minute).explainUnit(&got, c.actor, now)
		require.Equal(t, c.want, got, name)
	}
}

// The folders of a pod that is released are spoken of while something is done to them, and
// when that has failed.
func TestExplainFolders(t *testing.T) {
	s := newScript(t)
	s.want("a", inlineVolume("x"))
	s.endOf(doMount, outcome{})
	entries := func(want ...string) {
		t.Helper()
		var got []string
		for _, v := range s.w.explain(s.w.pods["a"], s.now) {
			got = append(got, v.Name+" "+v.Operation)
		}
		require.Equal(t, want, got)
	}
	entries("x ")
	s.release("a")
	entries("x unmount sub paths", "(folders) unmount sub paths")
	s.endOf(doLook, outcome{})
	entries("x unmount")
	s.endOf(doUnmount, outcome{})
	entries("(folders) remove folders")
	s.endOf(doFinish, outcome{err: errFailed})
	entries("(folders) ")
	s.finish()
}
