package podsource

import (
	"context"
	"errors"
	"fmt"
	"iter"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/syncloop"
)

// FromSeq is a source for people who can write down where their pods come from as
// an iterator: each slice that it yields is the complete set. It registers the
// source; run what it returns as one of the Loop's sources.
//
// Each Run calls sets for an iterator of its own and goes through it. The
// iterator may wait between two sets; it has to end when ctx is done. An iterator
// that ends by itself ends the source and leaves its last set in force. An error
// that it yields ends Run with that error, whatever slice comes with it: the Loop
// runs the source again after a pause, and the last set stays in force meanwhile.
func FromSeq(m *Merger, source string, sets func(ctx context.Context) iter.Seq2[[]*v1.Pod, error]) (syncloop.EventSource, error) {
	if err := errors.Join(fields.Required("podsource: FromSeq's Merger", m), fields.Required("podsource: FromSeq's function", sets)); err != nil {
		return nil, err
	}
	if err := m.Register(source); err != nil {
		return nil, err
	}
	return syncloop.EventSourceFunc(func(ctx context.Context, emit func(syncloop.Event)) error {
		emit(changed(source))
		for pods, err := range sets(ctx) {
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return fmt.Errorf("source %q: %w", source, err)
			}
			_ = m.Set(source, pods, emit) // the Merger reports the pods that it leaves out
		}
		return nil
	}), nil
}
