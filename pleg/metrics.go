package pleg

import "time"

// Metrics are callbacks for counters, gauges and histograms. Each may be nil.
// They are called on the goroutine of Run, one at a time: they must not block,
// since all observation waits for them, and must not call Run. Everything else
// of the PLEG may be called.
type Metrics struct {
	// OnList is called after each list of all pods, with how long it took and
	// how many pods it showed; err is why it failed, nil when it did not.
	OnList func(took time.Duration, pods int, err error)
	// OnInspect is called after each look at one pod.
	OnInspect func(took time.Duration, err error)
	// OnFold is called when events were given up for one PodSync per pod because
	// OnEvent takes too long, with their number.
	OnFold func(events int)
	// OnStale is called when the number of pods that cannot be looked at changes.
	OnStale func(pods int)
	// OnStream is called when the state of the event stream changes, and first
	// when Run begins if the Runtime has events.
	OnStream func(StreamHealth)
	// OnMode is called when the mode changes.
	OnMode func(Mode)
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

// called tells of a query that has ended.
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
