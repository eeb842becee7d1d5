package server

import (
	"fmt"
	"strings"
	"syscall"
)

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// restartWords returns the restart count of a container in words.
func restartWords(n int32) string {
	switch n {
	case 0:
		return "never restarted"
	case 1:
		return "restarted once"
	case 2:
		return "restarted twice"
	}
	return fmt.Sprintf("restarted %d times", n)
}

// exitWords describes an exit in one line: the code, the reason and the cause.
func exitWords(e *ExitReport) string {
	text := fmt.Sprintf("exit code %d", e.Code)
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	if cause := exitCause(e); cause != "" {
		text += ", " + cause
	}
	return text
}

// exitCause returns the cause of an exit, else the meaning of its code, or "".
func exitCause(e *ExitReport) string {
	switch {
	case e.Cause != "":
		return e.Cause
	case e.Code > 128 && e.Code < 128+65:
		signal := syscall.Signal(e.Code - 128)
		if name := signal.String(); !strings.HasPrefix(name, "signal ") {
			return fmt.Sprintf("the code of signal %d (%s)", int(signal), name)
		}
		return fmt.Sprintf("the code of signal %d", int(signal))
	}
	return ""
}

var calls = map[string]string{
	"SyncPod": "updating its containers", "SyncTerminatingPod": "stopping its containers",
	"SyncTerminatingOrphan": "stopping its containers", "SyncTerminatedPod": "cleaning up after its containers",
}

// stepWords returns the step of PodReport.Step without the name of the worker's call. A call
// without a step becomes words.
func stepWords(step string) string {
	call, rest, found := strings.Cut(step, ": ")
	switch {
	case calls[call] == "":
		return step
	case found:
		return rest
	}
	return calls[call]
}

// waitWords returns PodReport.WaitsFor in words, or "" if the pod waits for no event, or for one that
// is visible elsewhere on the page.
func waitWords(text string) string {
	switch {
	case calls[text] != "", text == "changes or the next resync", text == "the next attempt", strings.HasPrefix(text, "nothing, until"):
		return ""
	case text == "Run":
		return "the start of the kubelet"
	case text == "nothing: the agent stops":
		return "the next start of the kubelet"
	case strings.HasPrefix(text, "SyncKnownPods"):
		return "its next start"
	}
	return text
}

var checks = map[string]string{
	"runtime": "container runtime", "pleg": "container states", "syncloop": "pod updates", "root": "root folder", "apiserver": "API server",
	"credential": "credential for the API server",
}

// checkWords returns the name of a health check for people.
func checkWords(name string) string {
	if words := checks[name]; words != "" {
		return words
	}
	return name
}

// partWords returns the unfinished parts of a pod without the word for their kind.
func partWords(parts []string) []string {
	out := make([]string, len(parts))
	for i, part := range parts {
		out[i] = strings.TrimPrefix(part, "stage ")
	}
	return out
}

var volumeStates = map[string]string{"NotMounted": "not mounted", "Mounted": "mounted", "Uncertain": "may be mounted"}

func volumeWords(v VolumeReport) string {
	if words := volumeStates[v.State]; words != "" {
		return words
	}
	return v.State
}
