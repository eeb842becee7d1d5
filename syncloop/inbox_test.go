package syncloop

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// Events before Run are kept, each once; events during Run are forwarded immediately.
func TestInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inbox Inbox
		dirty, housekeeping := Event{Kind: PodDirty, UID: "1"}, Event{Kind: Housekeeping}
		inbox.Emit(dirty)
		inbox.Emit(housekeeping)
		inbox.Emit(dirty)

		var mu sync.Mutex
		var got []Event
		emit := func(e Event) { mu.Lock(); defer mu.Unlock(); got = append(got, e) }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- inbox.Run(ctx, emit) }()
		synctest.Wait()
		require.ElementsMatch(t, []Event{dirty, housekeeping}, got)
		inbox.Emit(dirty)
		require.Equal(t, dirty, got[2], "Emit forwards the event before it returns")
		cancel()
		require.NoError(t, <-done)
		inbox.Emit(dirty) // no effect
	})
}
