package podworkerstest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/podworkers"
)

const script = `# A kill.

# Nothing runs yet.
create a static=web
----
0s a: Unknown -> Syncing
0s a: SyncPod begins
0s a: SyncPod ends

kill a
----
0s a: Syncing -> TerminationRequested
0s a: TerminationRequested -> Terminating
0s a: SyncTerminatingPod begins grace=30 acted=0s
0s a: SyncTerminatingPod ends
0s a: Terminating -> Terminated
0s a: SyncTerminatedPod begins acted=0s
0s a: SyncTerminatedPod ends
0s a: Terminated -> Finished
`

func TestPlay(t *testing.T) {
	require.Equal(t, script, Play(t, script, ScriptOptions{}))
	require.Equal(t, script, Play(t, "# A kill.\n\n\n# Nothing runs yet.\ncreate a static=web\n\nkill a\n----\nthis is wrong\n", ScriptOptions{}), "events are filled in")
	own := ScriptOptions{Config: func(*testing.T) podworkers.Config { return podworkers.Config{Syncer: podworkers.SyncerFuncs{}} }}
	require.Equal(t, script, Play(t, script, own), "with the caller's syncer")
}

func TestRewrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kill.txt")
	require.NoError(t, os.WriteFile(file, []byte("# A kill.\n\n# Nothing runs yet.\ncreate a static=web\n\nkill a\n"), 0o600))
	RunScripts(t, file, ScriptOptions{Rewrite: true})
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, script, string(data))
	RunScripts(t, file, ScriptOptions{})
}

func TestFirstDifference(t *testing.T) {
	require.Equal(t, "  a\n- b\n+ c\n+ d\n", firstDifference("a\nb", "a\nc\nd"))
	require.Equal(t, "  a\n+ b\n", firstDifference("a", "a\nb"))
}

// Invalid commands are reported.
func TestBadCommands(t *testing.T) {
	for line, want := range map[string]string{
		"dance a":               "unknown command",
		"create":                "the UID of the pod is missing",
		"create a colour=red":   `unknown attribute "colour=red"`,
		"create a grace=much":   "grace=much",
		"kill a override=much":  "override=much",
		"wait long":             "invalid duration",
		"on a SyncPod":          "invalid syntax",
		"on a Sync: ok":         `unknown call "Sync"`,
		"on a SyncPod: maybe":   `unknown outcome "maybe"`,
		"on a SyncPod: 5s call": "call cannot have a duration",
		"end a":                 "no call of a waits for end",
		"end a maybe":           "unknown outcome",
		"option fast":           "unknown option",
		"stop":                  "do not run",
	} {
		p := newPlayer(t, ScriptOptions{})
		p.hold = true
		_, err := p.command(line)
		require.ErrorContains(t, err, want, line)
		if p.workers != nil {
			_, err = p.command("option hold")
			require.ErrorContains(t, err, "options must precede all commands")
		}
	}
}
