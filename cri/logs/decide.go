package logs

import "time"

// writer is the result of a check for writers of a file.
type writer string

const (
	writerUnknown writer = "unknown" // cannot be determined
	writerOpen    writer = "open"    // a process has it open for writing
	writerClosed  writer = "closed"  // no process has it open: the file will not grow
)

// facts are the observations at the end of a file.
type facts struct {
	// stopped: the container stopped before the file was read.
	stopped bool
	// moved: another file is at the log's path, or a rotated file follows this one.
	moved bool
	// shrunk: the file was truncated.
	shrunk bool
	// grown: the file has more data.
	grown bool
	// writer is set only if moved or stopped.
	writer writer
	// quiet is the time without growth since the file was found moved or the container stopped.
	quiet time.Duration
	// over is the time since the container was found stopped.
	over time.Duration
}

// leaving reports whether there is a reason to leave the file.
func (f facts) leaving() bool { return f.moved || f.stopped }

// step is the next action of a follower.
type step string

const (
	stepWait      step = "wait"
	stepRead      step = "read on"
	stepStartOver step = "start over"
	stepNext      step = "next file" // after the rest of this one
	stepEnd       step = "end"       // after the rest of this one
)

// silentWriterPeriods is the number of periods without growth after which a follower leaves a file
// that was moved, or whose container has stopped, although it is open for writing. Otherwise a
// runtime that does not close a file would keep readers from the current file and from the end.
const silentWriterPeriods = 10

// decide returns the next step at the end of a file. After a reopen the last lines may still
// arrive in the old file, and after a container's end the runtime may still write the rest of the
// pipe. So a follower leaves a file only when it has no writer.
func decide(f facts, period time.Duration) step {
	switch {
	case f.shrunk:
		return stepStartOver
	case f.grown:
		return stepRead
	case !f.leaving() || !complete(f, period):
		return stepWait
	case f.moved:
		return stepNext
	}
	return stepEnd
}

// complete reports whether the file will not grow, as far as the facts show.
func complete(f facts, period time.Duration) bool {
	switch f.writer {
	case writerClosed:
		return true
	case writerOpen:
		return f.quiet >= silentWriterPeriods*period
	default:
		return max(f.quiet, f.over) >= period
	}
}
