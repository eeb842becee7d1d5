package logs

import (
	"fmt"
	"time"
)

// Options select a part of a log and its format, as in the API server's log request
// (PodLogOptions). The zero value selects the whole file.
type Options struct {
	// Follow continues with later lines until the container has stopped, a limit is reached or the
	// context ends.
	Follow bool
	// TailLines is the number of lines before the end at which to begin. Lines are physical lines
	// of both streams: each part of a split line counts, and an unterminated last line does not.
	// Zero begins at the end. Default nil: at the beginning.
	TailLines *int64
	// LimitBytes is the exact limit of the output, including timestamps. Output for a nil writer
	// does not count. Default: no limit.
	LimitBytes int64
	// SinceTime excludes older lines. Default: no exclusion.
	SinceTime time.Time
	// Since excludes lines older than this duration before the call. The later of Since and
	// SinceTime applies. Default: no exclusion.
	Since time.Duration
	// Timestamps prefixes each line with its time, with nine decimal digits. A split line has the
	// time of its first part.
	Timestamps bool
}

// validate returns an error with the name of the first invalid field.
func (o Options) validate() error {
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

func (o Options) since(now time.Time) time.Time {
	since := o.SinceTime
	if o.Since > 0 {
		if t := now.Add(-o.Since); t.After(since) {
			since = t
		}
	}
	return since
}
