package pods

import (
	"errors"
	"fmt"
	"time"

	"github.com/podwright/podwright/internal/run"
)

// Action is a kind of thing that a sync does.
type Action string

// The actions in a Result.
const (
	ActionStartContainer   Action = "StartContainer"
	ActionKillContainer    Action = "KillContainer"
	ActionRemoveContainer  Action = "RemoveContainer"
	ActionCreatePodSandbox Action = "CreatePodSandbox"
	ActionConfigPodSandbox Action = "ConfigPodSandbox"
	ActionKillPodSandbox   Action = "KillPodSandbox"
	// ActionInitContainer is the start of an init container, sidecars included.
	ActionInitContainer Action = "InitContainer"
	// ActionResizePodInPlace is all that a resize does. Its failure is reason
	// Error of the condition PodResizeInProgress.
	ActionResizePodInPlace Action = "ResizePodInPlace"
)

// Entry is one thing that was done or tried.
type Entry struct {
	Action Action
	// Target is the container's name, or the pod.
	Target string
	// Err is nil when it succeeded.
	Err error
}

// Result is what a sync or a kill did.
type Result struct {
	// Pod names the pod in errors.
	Pod string
	// Entries are in the order of completion of each step.
	Entries []Entry

	stopped     error
	over, again bool
	explanation string
}

// Acted tells that something was done or tried in the runtime: what was observed
// before is out of date.
func (r Result) Acted() bool { return len(r.Entries) > 0 }

// Over tells that a sync found nothing of the pod worth keeping and nothing to
// start: whatever its containers have come to, the pod has ended.
func (r Result) Over() bool { return r.over }

// Again tells that a sync is to be followed by another one at once: it has cleared
// the way and started nothing yet.
func (r Result) Again() bool { return r.again }

// Explanation says in one line why a sync did not start containers that the pod
// has, such as "init container a is running"; "" when all run or were to be
// started. Why those did not start Err and StartFailures tell.
func (r Result) Explanation() string { return r.explanation }

// NotBefore is when another try makes sense: the earliest end of what holds
// containers back. It is zero when nothing but time failed to help: when there is
// no error, or one of another kind, which a worker tries again at its own pace.
func (r Result) NotBefore() time.Time {
	var earliest time.Time
	for _, e := range r.Entries {
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

// Err joins the errors of all entries, nil when there are none; of many its text has
// the first five. A sync that was
// cut short by its context has an error too: the context's, and its cause. Errors in the
// tree that have a method NotBefore() time.Time with a time that is not zero
// tell when another try makes sense.
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
