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
		"INV-2":  "no pod waits for another one's call",
		"INV-3":  "calls follow SyncPod* (Terminating* Terminated*)?",
		"INV-4":  "the newest update counts",
		"INV-5":  "termination is sticky, and has a reason",
		"INV-6":  "the grace period is the least of what is present, at least 1 s, and never grows",
		"INV-7":  "no SyncPod after a terminating call began",
		"INV-8":  "Terminated means that the containers have stopped",
		"INV-9":  "a finished pod is left alone until SyncKnownPods forgets it",
		"INV-10": "a UID that is used again starts after the old pod is finished",
		"INV-11": "one static pod per full name, in the order of arrival",
		"INV-12": "waiting pods show no spec",
		"INV-13": "what the runtime knows never replaces a spec",
		"INV-14": "each done channel is closed exactly once, in time",
		"INV-15": "each terminating attempt applies the last status function, no other call does",
		"INV-16": "each call sees what was observed after the previous one ended",
		"INV-17": "transitions and retries need no update, and retries have a pause",
		"INV-18": "a forgotten pod leaves nothing",
		"INV-19": "unknown changes its meaning once, at the first SyncKnownPods",
		"INV-20": "pods that were handed in are not changed",
		"D5":     "evicted and deleted are noted whenever they are said",
		"D6":     "dead containers stay until their exit codes are read",
		"1.4":    "calls are made only while Run works",
		"1.5":    "the table of transitions",
		"1.7":    "a call is cancelled only when it is not wanted any more, and then it is",
		"1.12":   "SyncKnownPods forgets what is not desired and finished",
	}
}
