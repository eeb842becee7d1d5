package pleg

import "time"

// Metrics are callbacks for counters, gauges and histograms. Each may be nil.
// They are called on the goroutine of Run, one at a time: they must not block,
// since all observation waits for them, and must not call Run. Everything else
// of the PLEG may be called.
type Metrics struct {
	// Listed is called after each list of all pods, with how long it took and
	// how many pods it showed; err is why it failed, nil when it did not.
	Listed func(took time.Duration, pods int, err error)
	// Inspected is called after each look at one pod.
	Inspected func(took time.Duration, err error)
	// Folded is called when events were given up for one PodSync per pod because
	// OnEvent takes too long, with their number.
	Folded func(events int)
	// Stale is called when the number of pods that cannot be looked at changes.
	Stale func(pods int)
	// Stream is called when the state of the event stream changes, and first
	// when Run begins if the Runtime has events.
	Stream func(StreamHealth)
	// Mode is called when the mode changes.
	Mode func(Mode)
}

// gauges are the values of which the callbacks were told last.
type gauges struct {
	stale  int
	stream StreamState
	mode   Mode
}

// report tells of what has changed.
func (g *gauges) report(m *Metrics, h Health, stale int) {
	if stale != g.stale {
		g.stale = stale
		if m.Stale != nil {
			m.Stale(stale)
		}
	}
	if h.Stream.State != g.stream {
		g.stream = h.Stream.State
		if m.Stream != nil {
			m.Stream(h.Stream)
		}
	}
	if h.Mode != g.mode {
		g.mode = h.Mode
		if m.Mode != nil {
			m.Mode(h.Mode)
		}
	}
}

// called tells of a query that has ended.
func (m *Metrics) called(res result, now time.Time) {
	took := now.Sub(res.query.started)
	switch res.query.kind {
	case listAll:
		if m.Listed != nil {
			m.Listed(took, len(res.pods), res.err)
		}
	case inspectOne:
		if m.Inspected != nil {
			m.Inspected(took, res.err)
		}
	case streamEvents:
	}
}
