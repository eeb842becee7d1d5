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
)

func TestExplain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang, free := forever()
		l := newList(t, Config{Stages: []Entry{
			{Name: "folder", Release: Gone, Stage: &funcs{}},
			{Name: "volumes", Release: Stopped, Stage: &funcs{prepare: func(ctx context.Context, uid types.UID) error { _ = hang(ctx, uid); return errBroken }}},
		}})
		require.Nil(t, l.Explain("1"))
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, l.Prepare(ctx, podOf("1")), ErrUnresponsive)
		require.Equal(t, []StageState{
			{Name: "folder", Moment: Gone, State: StatePrepared, Since: begun},
			{Name: "volumes", Moment: Stopped, State: StatePreparing, Since: begun, CallSince: begun, CancelledAt: begun.Add(time.Second)},
		}, l.Explain("1"))
		require.Contains(t, l.Explain("1")[1].String(), "volumes: Preparing, since ")
		free()
		synctest.Wait()
		require.Equal(t, errBroken, l.Explain("1")[1].LastError)
		require.Contains(t, l.Explain("1")[1].String(), ", last error: broken")
		require.NoError(t, l.Release(t.Context(), "1", Stopped))
		require.Equal(t, StateReleased, l.Explain("1")[1].State)
		require.NoError(t, l.Release(t.Context(), "1", Gone))
		require.Nil(t, l.Explain("1"))
	})
}

// A step that ends because its context does is no longer one whose context has ended,
// whichever of the two is noted first.
func TestNothingIsCancelledAfterItsEnd(t *testing.T) {
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
			require.Zero(t, l.Explain(uid)[0].CancelledAt)
		}
	})
}

func TestNames(t *testing.T) {
	require.Equal(t, "Stopped Gone Moment(9)", Stopped.String()+" "+Gone.String()+" "+Moment(9).String())
	require.Equal(t, "prepare release Action(9)", Prepare.String()+" "+Release.String()+" "+Action(9).String())
	require.Equal(t, "Unknown Released State(5)", StateUnknown.String()+" "+StateReleased.String()+" "+(StateReleased+1).String())
}
