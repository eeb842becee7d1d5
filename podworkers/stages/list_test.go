package stages

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/podworkers"
)

var errBroken = errors.New("broken")

func TestConfig(t *testing.T) {
	ok := Entry{Name: "a", Release: Stopped, Stage: &funcs{}}
	for want, cfg := range map[string]Config{
		"Config.Stages[0].Name is required":                              {Stages: []Entry{{Release: Gone, Stage: &funcs{}}}},
		`Config.Stages[1].Name: "a" is a duplicate`:                      {Stages: []Entry{ok, ok}},
		"Config.Stages[1].Stage (b) is required":                         {Stages: []Entry{ok, {Name: "b", Release: Gone}}},
		"Config.Stages[0].Release (b): Moment(0) is not Stopped or Gone": {Stages: []Entry{{Name: "b", Stage: &funcs{}}}},
		"Config.Stages[0].Timeout is negative":                           {Stages: []Entry{{Name: "b", Release: Gone, Stage: &funcs{}, Timeout: -1}}},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, want)
	}
	given, c := []Entry{{Name: "a", Release: Gone, Stage: traced(&calls{}, "a")}}, &calls{}
	l := newList(t, Config{Stages: given})
	given[0].Stage = traced(c, "b")
	require.NoError(t, l.Prepare(t.Context(), podOf("1")))
	require.Empty(t, c.take(), "the List copies its stages")

	l = newList(t, Config{})
	require.NoError(t, l.Prepare(t.Context(), podOf("1")))
	require.NoError(t, l.Release(t.Context(), "1", Gone))
}

func TestBadPodsAreRefused(t *testing.T) {
	l := only(t, &funcs{})
	nameless, homeless := podOf("1"), podOf("1")
	nameless.Name, homeless.Namespace = "", ""
	for _, pod := range []*v1.Pod{nil, podOf(""), nameless, homeless} {
		require.Error(t, l.Prepare(t.Context(), pod))
	}
	require.Error(t, l.Release(t.Context(), "", Gone))
	require.Error(t, l.Release(t.Context(), "1", 0))
	require.Nil(t, l.Explain("1"))
}

// Stages are prepared in order, and released in reverse within a moment.
func TestOrder(t *testing.T) {
	c := &calls{}
	l := newList(t, Config{Stages: []Entry{
		{Name: "folder", Release: Gone, Stage: traced(c, "folder")},
		{Name: "users", Release: Stopped, Stage: traced(c, "users")},
		{Name: "volumes", Release: Stopped, Stage: traced(c, "volumes")},
		{Name: "logs", Release: Gone, Stage: traced(c, "logs")},
	}})
	require.NoError(t, l.Prepare(t.Context(), podOf("1")))
	require.Equal(t, []string{"prepare folder 1", "prepare users 1", "prepare volumes 1", "prepare logs 1"}, c.take())
	require.NoError(t, l.Release(t.Context(), "1", Stopped))
	require.Equal(t, []string{"release volumes 1", "release users 1"}, c.take())
	require.NoError(t, l.Release(t.Context(), "1", Gone))
	require.Equal(t, []string{"release logs 1", "release folder 1"}, c.take())
}

// Prepare and Release stop at the first failure, because later steps may depend on it.
func TestStopsAtFirstFailure(t *testing.T) {
	c := &calls{}
	broken := &funcs{
		prepare: func(context.Context, types.UID) error { return errBroken },
		release: func(context.Context, types.UID) error { panic(errBroken) },
	}
	l := newList(t, Config{Stages: []Entry{
		{Name: "a", Release: Stopped, Stage: traced(c, "a")},
		{Name: "b", Release: Stopped, Stage: broken},
		{Name: "c", Release: Stopped, Stage: traced(c, "c")},
	}})
	err := l.Prepare(t.Context(), podOf("1"))
	require.EqualError(t, err, "pod 1: prepare b: broken")
	require.ErrorIs(t, err, errBroken)
	require.Equal(t, []string{"prepare a 1"}, c.take())

	err = l.Release(t.Context(), "1", Stopped)
	require.EqualError(t, err, "pod 1: release b: the stage panicked: broken")
	require.NotEmpty(t, run.StackOf(err))
	var step *StepError
	require.ErrorAs(t, err, &step)
	require.Equal(t, "b", step.Stage)
	require.Equal(t, Release, step.Action)
	require.Equal(t, []string{"release c 1"}, c.take())
}

func TestGoexitIsAnError(t *testing.T) {
	l := only(t, &funcs{prepare: func(context.Context, types.UID) error { runtime.Goexit(); return nil }})
	require.ErrorContains(t, l.Prepare(t.Context(), podOf("1")), "Goexit")
}

func TestContextThatHasEnded(t *testing.T) {
	c := &calls{}
	l := only(t, traced(c, "a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, l.Prepare(ctx, podOf("1")), context.Canceled)
	require.Empty(t, c.take())
}

// A step that honours its context ends with its timeout, and may be repeated.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, _ types.UID) error { <-ctx.Done(); return ctx.Err() }
		l := newList(t, Config{Stages: []Entry{
			{Name: "a", Release: Stopped, Stage: &funcs{prepare: slow}},
			{Name: "b", Release: Stopped, Stage: &funcs{release: slow}, Timeout: time.Second},
		}})
		begun := time.Now()
		err := l.Prepare(t.Context(), podOf("1"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, ErrUnresponsive)
		require.Equal(t, 2*time.Minute, time.Since(begun))
		begun = time.Now()
		require.ErrorIs(t, l.Release(t.Context(), "1", Stopped), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begun))
	})
}

// A step that ignores its context is named in the error, never runs twice at a time for one pod,
// and does not delay other pods.
func TestUnresponsive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang, free := hung()
		c := &calls{}
		volumes := traced(c, "volumes")
		note := volumes.release
		volumes.release = func(ctx context.Context, uid types.UID) error {
			_ = note(ctx, uid)
			if uid == "1" {
				return hang(ctx, uid)
			}
			return nil
		}
		l := newList(t, Config{Stages: []Entry{
			{Name: "folder", Release: Gone, Stage: traced(c, "folder")},
			{Name: "volumes", Release: Stopped, Stage: volumes, Timeout: 10 * time.Second},
		}})
		begun := time.Now()
		err := l.Release(t.Context(), "1", Stopped)
		require.ErrorIs(t, err, ErrUnresponsive)
		require.ErrorContains(t, err, "pod 1: release volumes: ")
		require.Equal(t, 11*time.Second, time.Since(begun))

		// The next call for the pod waits 1 s and does not run.
		begun = time.Now()
		for range 2 {
			err = l.Release(t.Context(), "1", Stopped)
			require.ErrorIs(t, err, ErrUnresponsive)
			require.ErrorContains(t, err, "releasing volumes since")
		}
		require.ErrorIs(t, l.Prepare(t.Context(), podOf("1")), ErrUnresponsive)
		require.Equal(t, 3*time.Second, time.Since(begun))
		require.Equal(t, []string{"release volumes 1"}, c.take())

		// Other pods are not delayed.
		begun = time.Now()
		require.NoError(t, l.Prepare(t.Context(), podOf("2")))
		require.NoError(t, l.Release(t.Context(), "2", Stopped))
		require.NoError(t, l.Release(t.Context(), "2", Gone))
		require.Zero(t, time.Since(begun))

		err = l.Wait(time.Second)
		require.ErrorIs(t, err, ErrShutdownTimeout)
		require.ErrorContains(t, err, "releasing volumes of pod 1")

		// When the step returns, waiting calls continue.
		go func() { time.Sleep(time.Second / 2); free() }()
		require.NoError(t, l.Release(t.Context(), "1", Stopped))
		synctest.Wait() // the goroutines of the steps end after the steps
		require.NoError(t, l.Wait(0))
	})
}

func TestStepIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang, free := hung()
		l := only(t, &funcs{prepare: hang})
		w, err := podworkers.New(podworkers.Config{Syncer: podworkers.SyncerFuncs{
			Sync: func(ctx context.Context, w podworkers.Work) (bool, error) { return false, l.Prepare(ctx, w.Pod) },
		}})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		go func() { _ = l.Prepare(t.Context(), podOf("2")) }() // occupies the lane of pod 2
		synctest.Wait()
		for _, uid := range []types.UID{"1", "2"} {
			require.NoError(t, w.UpdatePod(podworkers.Update{Type: podworkers.UpdateCreate, Pod: podOf(uid)}))
		}
		synctest.Wait()
		require.Equal(t, "preparing it", w.State("1").Step)
		require.Equal(t, "waiting for the end of preparing it", w.State("2").Step)
		free()
		synctest.Wait()
		require.NoError(t, w.State("1").LastError)
		stop()
		require.NoError(t, <-done)
	})
}

// The failure of one stage does not hide the leftovers of others.
func TestLeftovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		list := func(uids ...types.UID) func(context.Context) ([]types.UID, error) {
			return func(context.Context) ([]types.UID, error) { return uids, nil }
		}
		l := newList(t, Config{Stages: []Entry{
			{Name: "folder", Release: Gone, Stage: &funcs{leftovers: list("1", "2", "2", "")}},
			{Name: "volumes", Release: Stopped, Stage: &funcs{leftovers: func(context.Context) ([]types.UID, error) { return []types.UID{"4"}, errBroken }}},
			{Name: "hung", Release: Stopped, Stage: &funcs{leftovers: func(context.Context) ([]types.UID, error) { <-end; return nil, nil }}},
			{Name: "logs", Release: Gone, Stage: &funcs{leftovers: list("3", "1")}},
		}})
		want := map[types.UID][]string{"1": {"folder", "logs"}, "2": {"folder"}, "3": {"logs"}, "4": {"volumes"}}
		begun := time.Now()
		for range 2 {
			found, err := l.Leftovers(t.Context())
			require.Equal(t, want, found)
			require.ErrorIs(t, err, errBroken)
			require.ErrorIs(t, err, ErrUnresponsive)
			require.ErrorContains(t, err, "stages: leftovers of hung")
			require.ErrorContains(t, err, "stages: leftovers of volumes")
		}
		require.Equal(t, 12*time.Second, time.Since(begun), "11 s for a hung listing, 1 s for the next one")
		close(end)
		require.NoError(t, l.Wait(time.Second))
	})
}
