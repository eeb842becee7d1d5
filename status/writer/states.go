package writer

// content compares the status at a sink with the newest one.
type content uint8

const (
	restored   content = iota // no status was set since the agent's start: no write necessary
	pending                   // the sink has not accepted the newest status
	unverified                // the sink accepted the newest status, and may have another now
	accepted                  // the sink has the newest status
	removed                   // the pod was removed from the sink
	contents
)

// flight is the progress of a write, which is a series of calls of the sink.
type flight uint8

const (
	idle    flight = iota // no write is in progress
	between               // a write is in progress, between its calls
	getting
	patching
	deleting
	receiving
)

func (f flight) String() string {
	return [...]string{"idle", "write", "get", "patch", "delete", "receive"}[f]
}

// wait is the reason to delay the next call.
type wait uint8

const (
	failure  wait = 1 << iota // the last call failed
	absent                    // the sink has no such pod
	noMirror                  // the static pod has no mirror
	nearEnd                   // the pod is about to end: one write will report all of it
	runs                      // containers may still run: all but the terminal phase was written
	drifted                   // others changed the status at the sink

	allWaits = failure | absent | noMirror | nearEnd | runs | drifted
)

// event is an occurrence that changes a slot.
type event uint8

const (
	statusSet     event = iota // a new status
	urgentSet                  // a new status that is more urgent than the failed write
	recheck                    // the sink must be compared again, or receive the status again
	flushed                    // as recheck, at once
	callFailed                 // a call failed
	newestWritten              // the sink accepted the newest status
	olderWritten               // the sink accepted an older status
	podSeen                    // the pod was observed at the sink
	deletionSeen               // the pod was observed at the sink with a deletion request
	sinkRecovered              // the sink accepts other calls again after an outage
	mirrorChanged              // the static pod has another mirror, or none
	events
)

// transitions has, for each event, the next content by the previous one, and the waits that end.
// Calls and their results begin the waits.
var transitions = [events]struct {
	next [contents]content
	ends wait
}{
	// restored, pending, unverified, accepted, removed
	statusSet:     {[...]content{pending, pending, pending, pending, pending}, noMirror | nearEnd | runs | drifted},
	urgentSet:     {[...]content{pending, pending, pending, pending, pending}, allWaits},
	recheck:       {[...]content{restored, pending, unverified, unverified, removed}, 0},
	flushed:       {[...]content{restored, pending, unverified, unverified, removed}, allWaits},
	callFailed:    {[...]content{restored, pending, unverified, unverified, removed}, allWaits},
	newestWritten: {[...]content{restored, accepted, accepted, accepted, removed}, allWaits},
	olderWritten:  {[...]content{restored, pending, unverified, accepted, removed}, allWaits},
	podSeen:       {[...]content{restored, pending, unverified, accepted, removed}, absent},
	deletionSeen:  {[...]content{restored, pending, unverified, accepted, removed}, absent | runs | drifted},
	sinkRecovered: {[...]content{restored, pending, unverified, accepted, removed}, failure},
	mirrorChanged: {[...]content{restored, pending, pending, pending, removed}, allWaits},
}
