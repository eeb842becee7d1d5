package server

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// headline returns the first line of the page: the problems of the node by severity. fine is true
// without problems.
func headline(r Report) (text string, fine bool) {
	var parts []string
	add := func(n int, one, many string) {
		if n > 0 {
			parts = append(parts, count(n, one, many))
		}
	}
	var checks []string
	for _, c := range r.Checks {
		if !c.OK {
			checks = append(checks, checkWords(c.Name))
		}
	}
	if len(checks) > 0 {
		parts = append(parts, strings.Join(checks, " and ")+" not ok")
	}
	pods := map[condition]int{}
	for i := range r.Pods {
		pods[conditionOf(&r.Pods[i], r.Time)]++
	}
	add(pods[failed]+pods[rejected], "pod failed", "pods failed")
	add(len(r.Manifests), "manifest rejected", "manifests rejected")
	add(len(r.Objects), "object file rejected", "object files rejected")
	noun := pods[failed]+pods[rejected] == 0 // the first condition names the pods
	for _, c := range []condition{crashing, cannotStart, notReady, stopping, starting, restarted, leftover} {
		one, many := c.String(), c.String()
		switch c {
		case crashing:
			many = "keep crashing"
		case restarted:
			one, many = "restarted in the last 10 minutes", "restarted in the last 10 minutes"
		}
		if noun && pods[c] > 0 {
			one, many, noun = "pod "+one, "pods "+many, false
		}
		add(pods[c], one, many)
	}
	late, stuck := 0, 0
	for _, p := range r.Probers {
		late, stuck = late+p.Queued, stuck+p.Stuck
	}
	add(stuck, "probe hangs", "probes hang")
	add(late, "probe is late", "probes are late")
	if len(parts) > 0 {
		return strings.Join(parts, ", "), false
	}
	switch len(r.Pods) {
	case 0:
		return "All fine, no pods", true
	case 1:
		return "All fine, 1 pod", true
	}
	return fmt.Sprintf("All fine, %d pods", len(r.Pods)), true
}

// podHeadline returns the first line of a pod's page: its condition, with the reason if it has one.
func podHeadline(r *PodReport, now time.Time) string {
	c := conditionOf(r, now)
	text := c.String()
	if c.fine() {
		return text
	}
	if reason := podReason(r, c, now); reason != "" {
		text += ": " + reason
	}
	return text
}

// podReason returns the most specific reason of a pod's condition, on one line.
func podReason(r *PodReport, c condition, now time.Time) string {
	if (c == failed || c == rejected) && r.Reason != "" {
		return firstLine(r.Reason)
	}
	for _, container := range r.Containers {
		if container.Reason == "CrashLoopBackOff" || c == restarted && restartedLately(container, now) {
			reason := "container " + container.Name + " " + restartWords(container.Restarts)
			if e := container.LastExit; e != nil {
				reason += ", last exit: " + exitWords(e)
			}
			return reason
		}
	}
	if r.LastError != "" {
		return firstLine(r.LastError)
	}
	for _, v := range r.Volumes {
		if v.LastError != "" {
			return "volume " + v.Name + ": " + firstLine(v.LastError)
		}
	}
	for _, container := range r.Containers {
		if containerColour(container) == "bad" {
			return "container " + container.Name + ": " + cmp.Or(lastEnd(container), containerState(container))
		}
	}
	if c == notReady || c == starting {
		for _, p := range r.Probes {
			if p.Result == "Failure" {
				return strings.ToLower(p.Type) + " probe of container " + p.Container + " fails"
			}
		}
	}
	return firstLine(r.Why)
}

// lastEnd returns the exit of a terminated container, or "".
func lastEnd(c ContainerReport) string {
	if c.State != "terminated" || c.LastExit == nil {
		return ""
	}
	return exitWords(c.LastExit)
}

func firstLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return first
}
