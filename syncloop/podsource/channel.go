package podsource

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/syncloop"
)

// FromChannel returns a source that reads complete sets from a channel, and registers it with the
// Merger. Run it as one of the Loop's sources. Closing the channel ends the source; its last set
// stays in force.
func FromChannel(m *Merger, source string, sets <-chan []*v1.Pod) (syncloop.EventSource, error) {
	if err := errors.Join(fields.Required("podsource: FromChannel's Merger", m), fields.Required("podsource: FromChannel's channel", sets)); err != nil {
		return nil, err
	}
	if err := m.Register(source); err != nil {
		return nil, err
	}
	return syncloop.EventSourceFunc(func(ctx context.Context, emit func(syncloop.Event)) error {
		emit(changed(source))
		for {
			select {
			case <-ctx.Done():
				return nil
			case pods, ok := <-sets:
				if !ok {
					return nil
				}
				_ = m.Set(source, pods, emit) // the Merger reports ignored pods
			}
		}
	}), nil
}
