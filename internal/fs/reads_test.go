package fs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Blocked reads delay other reads by at most AnswerTime per batch, are not started twice, and
// their results count when they return.
func TestReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Reads[int]
		var keys []Key
		for i := range 2 * readBatch {
			keys = append(keys, Key{Path: fmt.Sprintf("%02d", i)})
		}
		release, calls := make(chan struct{}), make([]atomic.Int64, len(keys))
		read := func(i int) int {
			calls[i].Add(1)
			if i != 7 {
				<-release
			}
			return i
		}
		all := func(keys []Key) (got []int) {
			for _, result := range r.All(keys, read) {
				if result != nil {
					got = append(got, *result)
				}
			}
			return got
		}
		began := time.Now()
		require.Equal(t, []int{7}, all(keys))
		require.Equal(t, 2*AnswerTime, time.Since(began))
		began = time.Now()
		require.Equal(t, []int{7}, all(keys))
		require.Zero(t, time.Since(began))
		require.EqualValues(t, 1, calls[8].Load())
		require.Len(t, r.Wait(time.Second), len(keys)-1)
		close(release)
		require.Empty(t, r.Wait(time.Second))
		require.Len(t, all(keys[:2]), 2)
		require.Empty(t, r.late, "late reads of other keys are dropped")
	})
}

// After a link was replaced, its new target is read beside the old one, at most perPath times.
func TestReadsOfReplacedLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Reads[int]
		var calls atomic.Int64
		path, release := filepath.Join(t.TempDir(), "link"), make(chan struct{})
		for n := range 2 * perPath {
			require.NoError(t, os.Symlink("nowhere", path))
			entries, err := os.ReadDir(filepath.Dir(path))
			require.NoError(t, err)
			key := KeyOf(path, entries[0])
			key.made = int64(n) // clocks of file systems are coarse
			require.NotZero(t, key.link)
			require.Nil(t, r.All([]Key{key}, func(int) int { calls.Add(1); <-release; return 1 })[0])
			require.NoError(t, os.Remove(path))
		}
		require.EqualValues(t, perPath, calls.Load())
		close(release)
	})
}

// A failed watch is restarted after a growing pause, unless its error is final.
func TestWatchIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		watches, h, log := 0, NewHints(), slog.New(slog.DiscardHandler)
		h.Watch(ctx, func(_ context.Context, changed func(Hint)) error {
			watches++
			changed(Hint{Path: "a", State: Writing})
			return errors.New("lost")
		}, log)
		require.InDelta(t, 600/20, watches, 5)
		require.Empty(t, h.writing)
		h.Watch(t.Context(), NoWatch, log)
	})
}

func TestHintsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, began := NewHints(), time.Now()
		rest := func() time.Duration { return time.Second }
		require.True(t, h.Wait(t.Context(), time.Minute, rest))
		require.Equal(t, time.Minute, time.Since(began))
		h.Add(Hint{})
		require.True(t, h.Wait(t.Context(), time.Minute, rest))
		require.Equal(t, time.Minute+time.Second, time.Since(began))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.False(t, h.Wait(ctx, time.Minute, rest))
	})
}
