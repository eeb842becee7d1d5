package logs

import "time"

// writer is who can write to a file.
type writer string

const (
	writerUnknown writer = "unknown" // cannot be found out here
	writerThere   writer = "there"   // somebody has it open for writing
	writerGone    writer = "gone"    // nobody has: it will not grow any more
)

// facts are what is known when all that a file holds has been read.
type facts struct {
	// stopped: the container had stopped before the file was read.
	stopped bool
	// moved: the log's path names another file by now, or a rotated file
	// follows this one.
	moved bool
	// shrunk: the file is shorter than it was, so it was truncated.
	shrunk bool
	// grown: there is more by now.
	grown bool
	// writer is who can write to the file; looked for only if moved or stopped.
	writer writer
	// quiet is for how long the file has not grown since it was found moved, or
	// the container stopped.
	quiet time.Duration
	// over is for how long the container has been known to have stopped.
	over time.Duration
}

// leaving tells whether there is a reason to leave the file.
func (f facts) leaving() bool { return f.moved || f.stopped }

// step is what a follower does next.
type step string

const (
	stepWait      step = "wait"
	stepRead      step = "read on"
	stepStartOver step = "start over"
	stepNext      step = "next file" // after all that is left of this one
	stepEnd       step = "end"       // after all that is left of this one
)

// silentWriterPeriods is the number of periods without growth after which a file
// that was moved, or whose container has stopped, is left although it is open for
// writing: a runtime that forgets to close it must not keep readers from the file it
// writes to now, nor from the end.
const silentWriterPeriods = 10

// decide says how to go on at the end of a file. A runtime that reopens a log
// writes to the new file while the last lines still arrive in the old one, and one
// that says that a container has stopped may still be writing what was in the
// pipe. So a file is left only when nobody writes to it any more.
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

// complete tells whether the file will not grow any more, as far as can be known.
func complete(f facts, period time.Duration) bool {
	switch f.writer {
	case writerGone:
		return true
	case writerThere:
		return f.quiet >= silentWriterPeriods*period
	default:
		return max(f.quiet, f.over) >= period
	}
}
