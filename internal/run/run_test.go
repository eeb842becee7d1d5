package run_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/podwright/podwright/internal/run"
)

func TestSignalIsGivenOnce(t *testing.T) {
	s := run.NewSignal()
	s.Wake()
	s.Wake()
	require.Len(t, s, 1)
	<-s
	require.Empty(t, s)
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.True(t, run.InBubble())
		begun := time.Now()
		require.True(t, run.Sleep(t.Context(), time.Minute))
		require.Equal(t, time.Minute, time.Since(begun))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.False(t, run.Sleep(ctx, time.Minute))
	})
	require.False(t, run.InBubble())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		require.False(t, run.Sleep(ctx, 0), "a context that is done has priority")
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		require.False(t, run.Wait(done, time.Second))
		close(done)
		require.True(t, run.Wait(done, 0))

		done, begun := make(chan struct{}), time.Now()
		time.AfterFunc(time.Second, func() { close(done) })
		require.True(t, run.Wait(done, time.Minute))
		require.Equal(t, time.Second, time.Since(begun))
	})
}

func TestIdleFromTheBeginning(t *testing.T) {
	var g run.Group
	select {
	case <-g.Idle():
	default:
		t.Fatal("nothing runs")
	}
}

func TestGuard(t *testing.T) {
	require.NoError(t, run.Guard("it", func() error { return nil }))
	failed := errors.New("failed")
	require.Equal(t, failed, run.Guard("it", func() error { return failed }))
	require.Empty(t, run.StackOf(failed))
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = run.StackOf(nil) }), "without an allocation")

	err := run.Guard("the syncer", func() error { panic(failed) })
	require.EqualError(t, err, "the syncer panicked: failed")
	require.ErrorIs(t, err, failed)
	require.Contains(t, run.StackOf(err), "TestGuard")
	require.EqualError(t, run.Guard("it", func() error { panic(7) }), "it panicked: 7")
}

func TestGroupNamesRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g run.Group
		require.Empty(t, g.Wait(time.Second), "empty")

		end := make(chan struct{})
		g.Go("b", func() { <-end })
		g.Go("a", func() { <-end })
		g.Go("a", func() { <-end })
		g.Go("soon", func() { time.Sleep(time.Millisecond) })
		begun := time.Now()
		require.Equal(t, []string{"a", "b"}, g.Wait(time.Second))
		require.Equal(t, time.Second, time.Since(begun))

		idle := g.Idle()
		close(end)
		<-idle
		require.Empty(t, g.Wait(0))
		require.Empty(t, g.Running())

		end = make(chan struct{})
		g.Go("again", func() { <-end })
		require.Equal(t, []string{"again"}, g.Wait(0))
		close(end)
		<-g.Idle()
	})
}

func TestAllEndsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed, late := errors.New("failed"), errors.New("late")
		ended := false
		err := run.All(t.Context(),
			func(ctx context.Context) error { <-ctx.Done(); ended = true; return late },
			func(context.Context) error { time.Sleep(time.Second); return failed },
		)
		require.ErrorIs(t, err, failed)
		require.ErrorIs(t, err, late)
		require.True(t, ended)
	})
}

type item struct {
	due   int
	place run.Place
}

func TestHeap(t *testing.T) {
	h := run.NewHeap(func(a, b *item) bool { return a.due < b.due }, func(i *item) *run.Place { return &i.place })
	_, ok := h.First()
	require.False(t, ok)

	items := []*item{{due: 5}, {due: 1}, {due: 4}, {due: 2}, {due: 3}}
	for _, i := range items {
		h.Remove(i) // no effect: it is not in the heap
		h.Put(i)
		require.True(t, i.place.In())
	}
	items[0].due = 0
	h.Put(items[0])
	h.Remove(items[2])
	require.False(t, items[2].place.In())
	require.Equal(t, 4, h.Len())

	var order []int
	for h.Len() > 0 {
		first, ok := h.First()
		require.True(t, ok)
		h.Remove(first)
		order = append(order, first.due)
	}
	require.Equal(t, []int{0, 1, 2, 3}, order)
}

func TestEach(t *testing.T) {
	even := errors.New("even")
	for n := range 4 {
		errs := run.Each(n, func(i int) error {
			if i%2 == 0 {
				return even
			}
			return nil
		})
		require.Equal(t, []error{even, nil, even, nil}[:n], errs)
	}
}

func TestEndOf(t *testing.T) {
	plain, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, context.Canceled, run.EndOf(plain))
	why := errors.New("why")
	caused, end := context.WithCancelCause(t.Context())
	end(why)
	require.ErrorIs(t, run.EndOf(caused), why)
	require.ErrorIs(t, run.EndOf(caused), context.Canceled)
}

func TestWithGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		call, done := run.WithGrace(ctx, time.Minute)
		cancel()
		begin := time.Now()
		<-call.Done()
		require.Equal(t, time.Minute, time.Since(begin))
		done()

		call, done = run.WithGrace(ctx, time.Minute)
		synctest.Wait()
		require.NoError(t, call.Err(), "the context had ended before")
		done()
		require.Error(t, call.Err())
		require.Equal(t, time.Minute, time.Since(begin), "done ends the context at once")

		call, done = run.WithGrace(t.Context(), time.Minute)
		done()
		require.Error(t, call.Err())
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
