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

// FromSeq returns a source that reads complete sets from an iterator, and registers it with the
// Merger. Run it as one of the Loop's sources.
//
// Each Run calls sets once and ranges over the iterator. The iterator may block between two sets
// and must end when ctx is done. If it ends by itself, the source ends, and its last set stays in
// force. If it yields an error, Run ignores the slice and returns the error. The Loop then runs
// the source again after a pause; the last set stays in force.
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
			_ = m.Set(source, pods, emit) // the Merger reports ignored pods
		}
		return nil
	}), nil
}
