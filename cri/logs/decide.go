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
	// complete: the file is of a kind that does not grow.
	complete bool
	// writer is who can write to the file; looked for only if moved.
	writer writer
	// quiet is for how long the file has not grown since it was found moved.
	quiet time.Duration
}

// step is what a follower does next.
type step string

const (
	stepWait      step = "wait"
	stepRead      step = "read on"
	stepStartOver step = "start over"
	stepNext      step = "next file" // after all that is left of this one
	stepEnd       step = "end"       // after all that is left of this one
)

// patienceWithWriter is for how many periods a file that was moved may be quiet
// before it is left although somebody has it open for writing: a runtime that
// forgets to close it must not keep readers from the file it writes to now.
const patienceWithWriter = 10

// decide says how to go on at the end of a file. A runtime that reopens a log
// writes to the new file while the last lines still arrive in the old one, so the
// old one is left only when nobody writes to it any more.
func decide(f facts, period time.Duration) step {
	switch {
	case f.shrunk:
		return stepStartOver
	case f.grown:
		return stepRead
	case !f.moved && f.stopped:
		return stepEnd
	case !f.moved:
		return stepWait
	case f.stopped, f.complete, f.writer == writerGone:
		return stepNext
	case f.writer == writerUnknown && f.quiet >= period:
		return stepNext
	case f.quiet >= patienceWithWriter*period:
		return stepNext
	}
	return stepWait
}
