package podworkerstest

import (
	"maps"
	"slices"
)

// Meaning returns a short explanation of a Violation's rule.
func Meaning(rule string) string {
	if m, ok := meanings()[rule]; ok {
		return m
	}
	return "section " + rule + " of the pod lifecycle"
}

// Rules returns the ids of all rules that a Checker and a Recorder check.
func Rules() []string { return slices.Sorted(maps.Keys(meanings())) }

func meanings() map[string]string {
	return map[string]string{
		"INV-1":  "one call per UID at a time",
		"INV-2":  "no pod waits for a call of another pod",
		"INV-3":  "calls follow SyncPod* (Terminating* Terminated*)?",
		"INV-4":  "each call has the newest spec",
		"INV-5":  "termination is sticky, and has a reason",
		"INV-6":  "the grace period is the smallest that applies, at least 1 s, and never grows",
		"INV-7":  "no SyncPod after a terminating call began",
		"INV-8":  "Terminated means that the containers have stopped",
		"INV-9":  "no calls for a finished pod until SyncKnownPods forgets it",
		"INV-10": "a reused UID starts after the old pod is finished",
		"INV-11": "one static pod per full name, in the order of arrival",
		"INV-12": "waiting pods show no spec",
		"INV-13": "a pod of the runtime never replaces a spec",
		"INV-14": "each done channel is closed exactly once, in time",
		"INV-15": "each terminating call gets the last status function, other calls get none",
		"INV-16": "each call sees observations made after the end of the previous call",
		"INV-17": "transitions and retries need no update, and retries have a pause",
		"INV-18": "a forgotten pod leaves no state",
		"INV-19": "Unknown changes its meaning once, at the first SyncKnownPods",
		"INV-20": "pods of updates are not changed",
		"D5":     "evicted and deleted are recorded at any time",
		"D6":     "dead containers stay until their exit codes are read",
		"blind":  "a view of running containers shows some",

		"two-instances":   "a container has one running instance",
		"slow-stop":       "a stop takes its grace period at most",
		"early-phase":     "a terminal phase is published after the containers have stopped",
		"restart-policy":  "containers restart as their policy permits",
		"exit-code":       "an exit code stays in the status and does not change",
		"stale-pod":       "a sync acts on the newest version of the pod",
		"resource-kept":   "SyncTerminatedPod releases the pod's resources",
		"resource-leaked": "a failed start leaves no resources",

		"1.4":  "calls begin only during Run",
		"1.5":  "the table of transitions",
		"1.7":  "a call is cancelled if and only if it is obsolete",
		"1.12": "SyncKnownPods forgets finished pods that are not desired",
	}
}
