package run_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/internal/run"
)

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
		require.Equal(t, time.Minute, time.Since(begin), "what is done waits for nothing")

		call, done = run.WithGrace(t.Context(), time.Minute)
		done()
		require.Error(t, call.Err())
	})
}
