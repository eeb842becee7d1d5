package run

// Signal wakes one goroutine. Several wakes before a receive count once. Use NewSignal.
type Signal chan struct{}

// NewSignal returns a Signal without a pending wake.
func NewSignal() Signal { return make(Signal, 1) }

// Wake sends the signal. It never blocks.
func (s Signal) Wake() {
	select {
	case s <- struct{}{}:
	default:
	}
}
