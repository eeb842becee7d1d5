package pods

import (
	"errors"
	"fmt"
	"time"

	"github.com/podwright/podwright/internal/run"
)

// Action is a kind of step of a sync or kill.
type Action string

// The actions in a Result.
const (
	ActionStartContainer   Action = "StartContainer"
	ActionKillContainer    Action = "KillContainer"
	ActionRemoveContainer  Action = "RemoveContainer"
	ActionCreatePodSandbox Action = "CreatePodSandbox"
	ActionConfigPodSandbox Action = "ConfigPodSandbox"
	ActionKillPodSandbox   Action = "KillPodSandbox"
	// ActionInitContainer is the start of an init container or sidecar.
	ActionInitContainer Action = "InitContainer"
	// ActionResizePodInPlace is a whole resize. Its failure is reason Error of the condition
	// PodResizeInProgress.
	ActionResizePodInPlace Action = "ResizePodInPlace"
)

// Entry is one attempted step.
type Entry struct {
	Action Action
	// Target is the name of the container or pod.
	Target string
	// Err is nil on success.
	Err error
}

// Result is the outcome of a sync or a kill.
type Result struct {
	// Pod names the pod in errors.
	Pod string
	// Entries are in order of completion.
	Entries []Entry

	stopped     error
	over, again bool
	explanation string
}

// Acted reports whether the runtime was changed, or might have been. The observed status is then
// outdated.
func (r Result) Acted() bool { return len(r.Entries) > 0 }

// Over reports whether the pod has ended: the sync found no container to keep and none to start.
func (r Result) Over() bool { return r.over }

// Again reports whether another sync must follow at once, because this one only removed
// instances.
func (r Result) Again() bool { return r.again }

// Explanation returns in one line why a sync did not start containers of the pod, such as "init
// container a is running". It is "" if all containers run or a start was due. Err and
// StartFailures have the reasons of failed starts.
func (r Result) Explanation() string { return r.explanation }

// NotBefore returns the earliest end of a back-off, the time of the next useful attempt. It is
// zero without an error and for errors that do not depend on time; a worker retries the latter at
// its own pace.
func (r Result) NotBefore() time.Time {
	var earliest time.Time
	for _, e := range append(r.Entries[:len(r.Entries):len(r.Entries)], Entry{Err: r.stopped}) {
		var held interface{ NotBefore() time.Time }
		if e.Err == nil || !errors.As(e.Err, &held) {
			continue
		}
		if at := held.NotBefore(); !at.IsZero() && (earliest.IsZero() || at.Before(earliest)) {
			earliest = at
		}
	}
	return earliest
}

// Err returns the joined errors of all entries, or nil. Its text lists the first five. If its
// context ended the sync early, Err includes the context's error and cause. An error in the tree
// may have a method NotBefore() time.Time; a nonzero result is the time of its next useful attempt.
func (r Result) Err() error {
	var errs []error
	for _, e := range r.Entries {
		if e.Err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", e.Action, e.Target, e.Err))
		}
	}
	if r.stopped != nil {
		errs = append(errs, r.stopped)
	}
	if len(errs) == 0 {
		return nil
	}
	err := run.Join(errs...)
	if r.Pod == "" {
		return err
	}
	return fmt.Errorf("pod %s: %w", r.Pod, err)
}

func (r *Result) add(action Action, target string, err error) {
	r.Entries = append(r.Entries, Entry{Action: action, Target: target, Err: err})
}
