package run

// Signal wakes one goroutine. However often it is given while nobody receives,
// it is received once. Use NewSignal.
type Signal chan struct{}

// NewSignal returns a Signal that was not given yet.
func NewSignal() Signal { return make(Signal, 1) }

// Wake gives the signal. It never blocks.
func (s Signal) Wake() {
	select {
	case s <- struct{}{}:
	default:
	}
}
