package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRestartWords(t *testing.T) {
	for n, want := range map[int32]string{0: "never restarted", 1: "restarted once", 2: "restarted twice", 3: "restarted 3 times", 1000: "restarted 1000 times"} {
		require.Equal(t, want, restartWords(n))
	}
}

func TestExitWords(t *testing.T) {
	for want, e := range map[string]ExitReport{
		"exit code 0 (Completed), ended by itself":                  {Reason: "Completed", Cause: "ended by itself"},
		"exit code 3 (Error)":                                       {Code: 3, Reason: "Error"},
		"exit code 137 (Error), killed: liveness probe failed":      {Code: 137, Reason: "Error", Cause: "killed: liveness probe failed"},
		"exit code 137 (Error), the code of signal 9 (killed)":      {Code: 137, Reason: "Error"},
		"exit code 139, the code of signal 11 (segmentation fault)": {Code: 139},
		"exit code 255": {Code: 255},
		"exit code -1":  {Code: -1},
	} {
		require.Equal(t, want, exitWords(&e))
	}
}

func TestSpan(t *testing.T) {
	at := time.Now()
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 1400 * time.Millisecond: "1s", 59 * time.Second: "59s", time.Minute: "1m 0s", 3725 * time.Second: "1h 2m",
		24*time.Hour - time.Second: "23h 59m", 51*time.Hour + 5*time.Minute: "2d 3h",
	} {
		require.Equal(t, want, span(d, at))
	}
	require.Empty(t, span(time.Hour, time.Time{}))
}

// No name of the code appears on the pages.
func TestStepAndWaitWords(t *testing.T) {
	for step, want := range map[string]string{
		"": "", "SyncPod": "updating its containers", "SyncPod: observing the runtime": "observing the runtime",
		"SyncTerminatingPod: stopping: a": "stopping: a", "SyncTerminatedPod": "cleaning up after its containers", "another: step": "another: step",
	} {
		require.Equal(t, want, stepWords(step))
	}
	for wait, want := range map[string]string{
		"": "", "SyncPod": "", "changes or the next resync": "", "nothing, until no source names it (SyncKnownPods without it)": "",
		"SyncKnownPods with it, to restart it": "its next start", "Run": "the start of the kubelet", "nothing: the agent stops": "the next start of the kubelet",
		"the next attempt": "", "the static pod 7 with the same full name": "the static pod 7 with the same full name",
	} {
		require.Equal(t, want, waitWords(wait))
	}
	require.Equal(t, "container states", checkWords("pleg"))
	require.Equal(t, "manifests", checkWords("manifests"))
}

// Output cannot move the cursor of a terminal, hide text or reverse it.
func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext\r\nnext": "plain\ttext\nnext", "\x1b[1;31mred\x1b[0m": "red", "\x1b]0;title\x07text": "text",
		"a\x00b\rc\x7f": "a\uFFFDb\uFFFDc\uFFFD", "\u202Egpj.exe": "\uFFFDgpj.exe", "zero\u200Bwidth": "zero\uFFFDwidth", "é 世界": "é 世界", "\xff": "\uFFFD", "\x1b": "\uFFFD",
	} {
		require.Equal(t, want, printable(text))
	}
}
