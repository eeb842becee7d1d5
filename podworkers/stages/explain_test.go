package stages

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
)

func TestExplain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang, free := hung()
		l := newList(t, Config{Stages: []Entry{
			{Name: "folder", Release: Gone, Stage: &funcs{}},
			{Name: "volumes", Release: Stopped, Stage: &funcs{prepare: func(ctx context.Context, uid types.UID) error { _ = hang(ctx, uid); return errBroken }}},
		}})
		require.Nil(t, l.Explain("1"))
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, l.Prepare(ctx, podOf("1")), ErrUnresponsive)
		require.Equal(t, []podwright.Explanation{
			{Part: "stage folder", Since: begun},
			{Part: "stage volumes", Step: "preparing", Since: begun, Why: "its context ended at " + begun.Add(time.Second).Format(time.RFC3339)},
		}, l.Explain("1"))
		free()
		synctest.Wait()
		require.Equal(t, podwright.Explanation{Part: "stage volumes", Since: begun, Why: "it is not prepared", Err: errBroken}, l.Explain("1")[1])
		require.NoError(t, l.Release(t.Context(), "1", Stopped))
		require.Equal(t, "it is released", l.Explain("1")[1].Why)
		require.NoError(t, l.Release(t.Context(), "1", Gone))
		require.Nil(t, l.Explain("1"))
	})
}

// A step that ends because its context is done is not shown as cancelled afterwards, in either
// order of the two events.
func TestEndedStepIsNotShownAsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := only(t, &funcs{prepare: func(ctx context.Context, _ types.UID) error { <-ctx.Done(); return ctx.Err() }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var pods sync.WaitGroup
		uids := make([]types.UID, 200)
		for i := range uids {
			uids[i] = types.UID(strconv.Itoa(i))
			pods.Go(func() { _ = l.Prepare(ctx, podOf(uids[i])) })
		}
		pods.Wait()
		for _, uid := range uids {
			require.Equal(t, "it is not prepared", l.Explain(uid)[0].Why)
		}
	})
}

func TestNames(t *testing.T) {
	require.Equal(t, "Stopped Gone Moment(9)", Stopped.String()+" "+Gone.String()+" "+Moment(9).String())
	require.Equal(t, "prepare release Action(9)", Prepare.String()+" "+Release.String()+" "+Action(9).String())
}
