package pleg

import "time"

// Metrics are callbacks for counters, gauges and histograms. Each may be nil. They are called on
// the goroutine of Run, one at a time. They must not block, because all observation waits for
// them, and must not call Run or Observe, which waits for that goroutine. They may call all
// other methods of the PLEG.
type Metrics struct {
	// OnList is called after each list of all pods with its duration, the number of pods, and
	// its error or nil.
	OnList func(took time.Duration, pods int, err error)
	// OnInspect is called after each inspection of a pod with its duration, and its error or
	// nil.
	OnInspect func(took time.Duration, err error)
	// OnFold is called when events are merged into one PodSync per pod because OnEvent is too
	// slow, with the number of merged events.
	OnFold func(events int)
	// OnStale is called when the number of stale pods changes.
	OnStale func(pods int)
	// OnStream is called when the state of the event stream changes, and at the start of Run if
	// the Runtime has events.
	OnStream func(StreamHealth)
	// OnMode is called when the mode changes.
	OnMode func(Mode)
}

// gauges are the last reported values.
type gauges struct {
	stale  int
	stream StreamState
	mode   Mode
}

func (g *gauges) report(m *Metrics, h Health, stale int) {
	if stale != g.stale {
		g.stale = stale
		m.OnStale(stale)
	}
	if h.Stream.State != g.stream {
		g.stream = h.Stream.State
		m.OnStream(h.Stream)
	}
	if h.Mode != g.mode {
		g.mode = h.Mode
		m.OnMode(h.Mode)
	}
}

func (m *Metrics) called(res result, now time.Time) {
	took := now.Sub(res.query.started)
	switch res.query.kind {
	case listAll:
		m.OnList(took, len(res.pods), res.err)
	case inspectOne:
		m.OnInspect(took, res.err)
	case streamEvents:
	}
}
