package podworkers

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// W28: nothing is left of pods that are gone.
func TestNothingIsLeft(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 1000
	}
	inBubble(t, Config{}, func(b *bubble) {
		for i := range n {
			pod := podOf(fmt.Sprint(i))
			if i%3 == 0 {
				static("web")(pod)
			}
			require.NoError(b, b.UpdatePod(create(pod)))
			if i%10 == 0 {
				synctest.Wait()
				b.known()
			}
		}
		for range 3 {
			b.known()
		}
		require.Empty(b, b.m.records)
		require.Empty(b, b.m.names)
		require.Zero(b, b.m.due.Len())
		require.Empty(b, b.contexts)
		require.Empty(b, b.running)
		require.Empty(b, b.notes)
	})
}
