package manager

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The text of a volume has its operation or condition, the last error, and the time of the next
// attempt.
func TestVolumeStateString(t *testing.T) {
	at := time.Unix(1000, 0).UTC()
	for want, s := range map[string]VolumeState{
		"v: Mounted":                         {State: StateMounted},
		"v: NotMounted, waits for its claim": {WaitsFor: "its claim"},
		"v: Mounted, last error: failed":     {State: StateMounted, LastError: errFailed},
		"v: NotMounted, waits for its claim, last error: failed, next try at 1970-01-01T00:16:40Z": {WaitsFor: "its claim", LastError: errFailed, NextTry: at},
		"v: NotMounted, mount since 1970-01-01T00:16:40Z":                                          {WaitsFor: "mount", Operation: "mount", RunningSince: at},
		"v: NotMounted, mount since 1970-01-01T00:16:40Z, past its timeout":                        {Operation: "mount", RunningSince: at, Stuck: true},
	} {
		s.Name = "v"
		require.Equal(t, want, s.String())
	}
	for want, s := range map[string]VolumeState{
		"volume v: ready for 20s": {State: StateMounted, Since: at, Ready: true},
		"volume v: it waits for its claim, last error: failed, next try in 10s": {WaitsFor: "its claim", LastError: errFailed, NextTry: at.Add(30 * time.Second)},
		"volume v: mount for 20s, past its timeout":                             {WaitsFor: "mount", Operation: "mount", RunningSince: at, Stuck: true},
	} {
		s.Name = "v"
		require.Equal(t, want, s.explanation().At(at.Add(20*time.Second)))
	}
}

// A released pod has an entry for its folders while an operation on them runs, and after it
// failed.
func TestExplainFolders(t *testing.T) {
	s := newScript(t)
	s.prepare("a", inlineVolume("x"))
	s.endOf(doMount, outcome{})
	entries := func(want ...string) {
		t.Helper()
		var got []string
		for _, v := range s.rc.explain(s.rc.pods["a"], s.now) {
			got = append(got, v.Name+" "+v.Operation)
		}
		require.Equal(t, want, got)
	}
	entries("x ")
	s.release("a")
	entries("x unmount sub paths", "(folders) unmount sub paths")
	s.endOf(doScan, outcome{})
	entries("x unmount")
	s.endOf(doUnmount, outcome{})
	entries("(folders) remove folders")
	s.endOf(doFinish, outcome{err: errFailed})
	entries("(folders) ")
	s.finish()
}
