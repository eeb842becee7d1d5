package podwright

import (
	"strings"
	"time"
)

// Explanation is the state of one part of a pod: the step that runs, the last error, the
// next try. Methods named Explain return one for each part, in memory and without I/O.
type Explanation struct {
	// Part names the part within the pod: "image busybox:latest", "volume data".
	Part string
	// Step is the step that runs, such as "pull". It is empty if none runs.
	Step string
	// Since is the start of Step, or of the wait if no step runs. Zero: unavailable.
	Since time.Time
	// Why is the reason that no step runs, or that Step does not end, as a sentence:
	// "init container a is running". It is empty for a part that is ready.
	Why string
	// Err is the error of the last step. It is nil after success.
	Err error
	// NextTry is the time of the next step. Zero: no step is planned.
	NextTry time.Time
}

// String returns the explanation in one line:
//
//	image db:2: it waits for its next try, last error: no such manifest, next try at 2026-01-02T03:04:05Z
func (e Explanation) String() string {
	return e.text("since "+e.Since.Format(time.RFC3339), "at "+e.NextTry.Format(time.RFC3339))
}

// At returns the explanation in one line, with durations from now instead of times:
//
//	image busybox:latest: pull for 12s
func (e Explanation) At(now time.Time) string {
	seconds := func(from, to time.Time) string { return to.Sub(from).Round(time.Second).String() }
	return e.text("for "+seconds(e.Since, now), "in "+seconds(now, e.NextTry))
}

func (e Explanation) text(since, next string) string {
	var facts []string
	switch {
	case e.Step != "":
		facts = append(facts, e.Step)
	case e.Why != "":
		facts = append(facts, e.Why)
	case e.Err == nil:
		facts = append(facts, "ready")
	}
	if !e.Since.IsZero() && len(facts) > 0 {
		facts[0] += " " + since
	}
	if e.Step != "" && e.Why != "" {
		facts = append(facts, e.Why)
	}
	if e.Err != nil {
		facts = append(facts, "last error: "+e.Err.Error())
	}
	if !e.NextTry.IsZero() {
		facts = append(facts, "next try "+next)
	}
	return e.Part + ": " + strings.Join(facts, ", ")
}
