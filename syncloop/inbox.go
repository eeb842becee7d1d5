package syncloop

import (
	"context"
	"sync"
)

// Inbox is an EventSource for parts that are built before the Loop. It passes their events to the
// Loop that has it in Config.Sources. While it does not run, it keeps each distinct event once, so
// that its size is bounded by the number of pods. The zero value is ready for use. Inbox is safe
// for concurrent use.
type Inbox struct {
	mu   sync.Mutex
	emit func(Event) // nil while Run is not active
	kept map[Event]struct{}
}

var _ EventSource = (*Inbox)(nil)

// Emit records an event. It never blocks and is safe for concurrent use.
func (b *Inbox) Emit(e Event) {
	b.mu.Lock()
	emit := b.emit
	if emit == nil {
		if b.kept == nil {
			b.kept = map[Event]struct{}{}
		}
		b.kept[e] = struct{}{}
	}
	b.mu.Unlock()
	if emit != nil {
		emit(e)
	}
}

// Run forwards events until ctx is done, and returns nil.
func (b *Inbox) Run(ctx context.Context, emit func(Event)) error {
	b.mu.Lock()
	kept := b.kept
	b.emit, b.kept = emit, nil
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.emit = nil
	}()
	for e := range kept {
		emit(e)
	}
	<-ctx.Done()
	return nil
}
