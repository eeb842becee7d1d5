package probe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whoever has waited longest comes first; slow ones have places of their own.
func TestPoolTake(t *testing.T) {
	p := newPool(Exec, nil, 4)
	require.Equal(t, 3, p.slowBudget)
	wait := func(after int, slow bool) *worker {
		w := &worker{slow: slow, due: epoch.Add(time.Duration(after) * time.Second)}
		p.enqueue(w)
		return w
	}
	a, b, c, d := wait(1, true), wait(2, false), wait(3, true), wait(4, true)
	e, f, g := wait(5, true), wait(6, false), wait(7, false)
	require.Equal(t, Pool{Handler: Exec, Budget: 4, Queued: 7, Late: 9 * time.Second}, p.describe(epoch.Add(10*time.Second)))
	require.Equal(t, []*worker{a, b, c, d, nil}, []*worker{p.take(), p.take(), p.take(), p.take(), p.take()})
	p.release(false)
	require.Same(t, f, p.take(), "three slow ones are enough")
	p.unqueue(g)
	p.release(true)
	require.Same(t, e, p.take())
	require.Equal(t, Pool{Handler: Exec, Budget: 4, Running: 4, Slow: 3}, p.describe(epoch))
	require.Equal(t, 1, newPool(Exec, nil, 1).slowBudget)
}

func TestQueue(t *testing.T) {
	var q queue
	ws := make([]worker, 4)
	for i := range ws {
		q.push(&ws[i])
	}
	order := func() (out []int) {
		for w := q.first; w != nil; w = w.next {
			for i := range ws {
				if w == &ws[i] {
					out = append(out, i)
				}
			}
		}
		return out
	}
	require.Equal(t, []int{0, 1, 2, 3}, order())
	for _, step := range []struct {
		remove int
		left   []int
	}{{1, []int{0, 2, 3}}, {3, []int{0, 2}}, {0, []int{2}}, {2, nil}} {
		q.remove(&ws[step.remove])
		require.Equal(t, step.left, order())
		require.Equal(t, len(step.left), q.length)
	}
	require.Nil(t, q.last)
}
