package server

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// condition is the state of a pod in one word, for people. The worst one is the lowest.
type condition int

const (
	failed condition = iota
	rejected
	crashing
	cannotStart
	notReady
	stopping
	starting
	restarted
	leftover
	running
	completed
)

var conditionWords = [...]string{
	failed: "failed", rejected: "rejected", crashing: "keeps crashing", cannotStart: "cannot start", notReady: "not ready",
	stopping: "stopping", starting: "starting", restarted: "restarted", leftover: "leftover", running: "running", completed: "completed",
}

func (c condition) String() string { return conditionWords[c] }

// fine reports whether a pod in this condition needs no attention.
func (c condition) fine() bool { return c >= running }

func (c condition) colour() string {
	switch {
	case c.fine():
		return "good"
	case c < notReady:
		return "bad"
	}
	return "wait"
}

// restartLimit is the time after an exit in which a restarted pod needs attention. It equals the time
// after which Kubernetes resets the back-off of a container.
const restartLimit = 10 * time.Minute

// conditionOf returns the condition of a pod at the time of its report. The phase of an ended pod takes precedence, then its
// stop, then the failures of its parts.
func conditionOf(p *PodReport, now time.Time) condition {
	switch {
	case p.Phase == "Failed" && p.Worker == noWorker:
		return rejected
	case p.Phase == "Failed":
		return failed
	case p.Phase == "Succeeded":
		return completed
	case p.Phase == "" && p.Worker == noWorker:
		return leftover
	case strings.HasPrefix(p.Worker, "Terminat"), p.Worker == "Finished":
		return stopping
	case slices.ContainsFunc(p.Containers, func(c ContainerReport) bool { return c.Reason == "CrashLoopBackOff" }):
		return crashing
	case p.Phase != "Running" && hasFailure(p):
		return cannotStart
	case p.Phase != "Running":
		return starting
	case p.NotReady != "" || p.LastError != "":
		return notReady
	case slices.ContainsFunc(p.Containers, func(c ContainerReport) bool { return restartedLately(c, now) }):
		return restarted
	}
	return running
}

// noWorker is PodReport.Worker of a pod without a worker.
const noWorker = "none"

// restartedLately reports whether a container has failed within restartLimit and runs again. Stops by
// the kubelet, such as after a change of the image, do not count.
func restartedLately(c ContainerReport, now time.Time) bool {
	e := c.LastExit
	return c.Restarts > 0 && e != nil && e.At != nil && e.Code != 0 && !strings.HasPrefix(e.Cause, "stopped") && now.Sub(*e.At) < restartLimit
}

// hasFailure reports whether a step of the pod's start failed and is retried.
func hasFailure(p *PodReport) bool {
	return p.LastError != "" ||
		slices.ContainsFunc(p.Volumes, func(v VolumeReport) bool { return v.LastError != "" || v.Stuck }) ||
		slices.ContainsFunc(p.Containers, func(c ContainerReport) bool { return containerColour(c) == "bad" })
}

// worstFirst returns the pods in the order of the page: by condition, then by namespace and name.
func worstFirst(pods []PodReport, now time.Time) []PodReport {
	out := slices.Clone(pods)
	slices.SortStableFunc(out, func(a, b PodReport) int {
		return cmp.Or(cmp.Compare(conditionOf(&a, now), conditionOf(&b, now)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}
