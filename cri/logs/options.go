package logs

import (
	"fmt"
	"time"
)

// Options say which part of a log is read, and how it is shown. The zero value
// is all that the file holds. They are those of the API server's log request
// (PodLogOptions).
type Options struct {
	// Follow goes on with what is written later, until the container has
	// stopped, a limit is reached or the context ends. Default false.
	Follow bool
	// TailLines begins so many lines before the end. Lines are those of the
	// file, of both streams: each part of a line that the runtime has cut
	// counts, and a last line that has no end yet does not. Zero begins at the
	// end. Default nil: at the beginning.
	TailLines *int64
	// LimitBytes ends the output after so many bytes, exactly, timestamps
	// included. What goes to a nil writer does not count. Default (and meaning
	// of zero): no limit.
	LimitBytes int64
	// SinceTime leaves out lines that are older. Default: the zero time, none.
	SinceTime time.Time
	// Since leaves out lines that were older than this when the call began; the
	// later of this and SinceTime counts. Default (and meaning of zero): none.
	Since time.Duration
	// Timestamps puts the time in front of each line, with nine digits behind
	// the second. A line that comes in parts has that of its first part. Default
	// false.
	Timestamps bool
}

// Validate names the field that cannot be.
func (o Options) Validate() error {
	switch {
	case o.TailLines != nil && *o.TailLines < 0:
		return fmt.Errorf("log options: TailLines %d must not be negative", *o.TailLines)
	case o.LimitBytes < 0:
		return fmt.Errorf("log options: LimitBytes %d must not be negative", o.LimitBytes)
	case o.Since < 0:
		return fmt.Errorf("log options: Since %v must not be negative", o.Since)
	}
	return nil
}

// since is the time of the oldest line that is wanted.
func (o Options) since(now time.Time) time.Time {
	since := o.SinceTime
	if o.Since > 0 {
		if t := now.Add(-o.Since); t.After(since) {
			since = t
		}
	}
	return since
}
