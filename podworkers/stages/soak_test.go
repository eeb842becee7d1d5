package stages

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// However calls end and overlap, a pod has one step at a time, and ends released.
func TestSoak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pods, stages, rounds = 10, 3, 200
		var busy [pods]atomic.Int32
		held := [pods]map[string]bool{}
		var entries []Entry
		index := map[types.UID]int{}
		for i := range pods {
			index[types.UID(fmt.Sprint(i))] = i
			held[i] = map[string]bool{}
		}
		for s := range stages {
			name := fmt.Sprint("stage ", s)
			step := func(hold bool) func(context.Context, types.UID) error {
				return func(ctx context.Context, uid types.UID) error {
					i := index[uid]
					if busy[i].Add(1) != 1 {
						t.Errorf("two steps of pod %s at a time", uid)
					}
					defer busy[i].Add(-1)
					took := time.NewTimer(time.Duration(rand.IntN(3000)) * time.Millisecond)
					select {
					case <-took.C:
					case <-ctx.Done():
						if rand.IntN(2) == 0 {
							return ctx.Err()
						}
						<-took.C // it is deaf
					}
					if rand.IntN(4) == 0 {
						return errBroken
					}
					held[i][name] = hold
					return nil
				}
			}
			entries = append(entries, Entry{Name: name, Release: Moment(1 + s%2), Stage: &funcs{prepare: step(true), release: step(false)}})
		}
		l := newList(t, Config{Stages: entries, StepTimeout: 2 * time.Second})
		var wg sync.WaitGroup
		for uid, i := range index {
			wg.Go(func() {
				for range rounds {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(4000))*time.Millisecond)
					switch rand.IntN(3) {
					case 0:
						_ = l.Prepare(ctx, podOf(uid))
					case 1:
						_ = l.Release(ctx, uid, Stopped)
					default:
						_ = l.Release(ctx, uid, Gone)
					}
					cancel()
					l.Explain(uid)
				}
				for l.Release(t.Context(), uid, Stopped) != nil || l.Release(t.Context(), uid, Gone) != nil {
				}
				for name, holds := range held[i] {
					if holds {
						t.Errorf("pod %s still holds %s", uid, name)
					}
				}
			})
		}
		wg.Wait()
		require.NoError(t, l.Wait(time.Minute))
		require.Empty(t, l.pods)
		require.Empty(t, l.calls)
	})
}
