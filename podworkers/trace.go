package podworkers

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TraceKind is the kind of a TraceEvent.
type TraceKind uint8

// The kinds of trace events. The first six are inputs; the rest are decisions of the workers.
const (
	// TraceUpdate: an Update was accepted; Update and Stopped are set.
	TraceUpdate TraceKind = iota
	// TraceKnown: SyncKnownPods was called; Desired is set.
	TraceKnown
	// TraceForget: Forget was called.
	TraceForget
	// TraceRun: Run began to work.
	TraceRun
	// TraceStop: Run began to end.
	TraceStop
	// TraceEnd: the syncer returned; Call, Terminal and Err are set.
	TraceEnd
	// TraceState: the pod changes its state; From and To are set.
	TraceState
	// TraceCancel: the running call is cancelled; Err is the cause.
	TraceCancel
	// TraceDone: a KillOptions.Done is closed; Done is set, UID is not.
	TraceDone
	// TraceStart: the syncer is called; Call and Work are set. Of the Work of
	// SyncTerminatingOrphan only ActedAt counts.
	TraceStart
	// TraceAsk: OnDue is called for the newest update.
	TraceAsk
)

// Input reports whether the kind is an input, not a decision.
func (k TraceKind) Input() bool { return k <= TraceEnd }

// TraceEvent is one input or decision of the workers. Kind determines the fields that are set
// beside At, Kind and UID.
type TraceEvent struct {
	At   time.Time
	Kind TraceKind
	UID  types.UID

	// Update is the accepted update. Stopped is the result of Config.TerminalPodStopped.
	Update  Update
	Stopped bool
	// Desired are the pods of the SyncKnownPods call.
	Desired []types.UID
	// Call is the method of the syncer, and Work its argument.
	Call Call
	Work Work
	// Terminal and Err are the results of a call. Err is also the cause of a cancellation.
	Terminal bool
	Err      error
	From, To State
	Done     chan<- struct{}
}

// trace reports an input to Config.OnTrace. The caller holds mu.
func (w *Workers) trace(e TraceEvent) {
	if w.cfg.OnTrace != nil {
		w.cfg.OnTrace(e)
	}
}

// trace passes the decisions made at now to onTrace.
func (out *effects) trace(now time.Time, onTrace func(TraceEvent)) {
	for _, m := range out.moves {
		onTrace(TraceEvent{At: now, Kind: TraceState, UID: m.UID, From: m.From, To: m.To})
	}
	for _, c := range out.cancel {
		onTrace(TraceEvent{At: now, Kind: TraceCancel, UID: c.uid, Err: c.cause})
	}
	for _, done := range out.done {
		onTrace(TraceEvent{At: now, Kind: TraceDone, Done: done})
	}
	for _, c := range out.start {
		onTrace(TraceEvent{At: now, Kind: TraceStart, UID: c.uid, Call: c.kind, Work: c.work})
	}
	for _, uid := range out.onDue {
		onTrace(TraceEvent{At: now, Kind: TraceAsk, UID: uid})
	}
}

func uidsOf(pods []*v1.Pod) []types.UID {
	uids := make([]types.UID, 0, len(pods))
	for _, pod := range pods {
		if pod != nil {
			uids = append(uids, pod.UID)
		}
	}
	return uids
}
