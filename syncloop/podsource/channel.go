package podsource

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/syncloop"
)

// FromChannel is a source for people who have their pods already: each slice that
// arrives is the complete set. It registers the source; run what it returns as
// one of the Loop's sources. Closing the channel ends the source and leaves its
// last set in force.
func FromChannel(m *Merger, source string, sets <-chan []*v1.Pod) (syncloop.EventSource, error) {
	if err := errors.Join(fields.Required("podsource: FromChannel's Merger", m), fields.Required("podsource: FromChannel's channel", sets)); err != nil {
		return nil, err
	}
	if err := m.Register(source); err != nil {
		return nil, err
	}
	return syncloop.EventSourceFunc(func(ctx context.Context, _ func(syncloop.Event)) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case pods, ok := <-sets:
				if !ok {
					return nil
				}
				// Pods that are left out were logged, and are an event each.
				if err := m.Set(source, pods); err != nil && !errors.Is(err, ErrNoIdentity) {
					return fmt.Errorf("source %q: %w", source, err)
				}
			}
		}
	}), nil
}
