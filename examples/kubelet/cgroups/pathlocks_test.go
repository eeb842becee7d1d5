package cgroups

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A path has one holder at a time, other paths do not wait for it, and unused locks are deleted.
func TestPathLocks(t *testing.T) {
	var all pathLocks
	var inside, most atomic.Int32
	unlock := all.lock("other")
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			for range 50 {
				unlock := all.lock("path")
				if inside.Add(1) > 1 {
					most.Store(inside.Load())
				}
				inside.Add(-1)
				unlock()
			}
		})
	}
	wait.Wait()
	require.Zero(t, most.Load())
	require.Len(t, all.paths, 1)
	unlock()
	require.Empty(t, all.paths)
}
