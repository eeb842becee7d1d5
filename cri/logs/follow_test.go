package logs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Without a notifier everything is found once a period.
func TestFollowByLooking(t *testing.T) {
	s := &states{}
	followed(t, ReaderConfig{States: s}, one, func(f *running) {
		f.append(two)
		f.is(0, "one\n")
		f.is(time.Second, "one\ntwo\n")
		f.append(stamp + "stdout F half a li")
		f.is(5*time.Second, "one\ntwo\n")
		f.append("ne\n")
		f.is(time.Second, "one\ntwo\nhalf a line\n")
		f.append(one)
		s.set(nil, "c")
		require.NoError(t, f.endsWithin(time.Second))
		f.is(0, "one\ntwo\nhalf a line\none\n")
	})
}

func TestFollowWhatIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, s := newScripted(), &states{}
		f := startFollow(t, newReader(t, ReaderConfig{States: s, Notify: n.open}), write(t, ""), Options{})
		dir := filepath.Dir(f.path)
		began := time.Now()
		f.append(one)
		n.send(Change{Dir: dir, Name: "0.log"})
		f.is(0, "one\n")
		f.append(two)
		n.send(Change{Dir: dir, Name: "10.log"})
		n.send(Change{Dir: dir, Name: "0.logs"})
		n.send(Change{Dir: "elsewhere", Name: "0.log"})
		f.is(0, "one\n")
		n.send(Change{}) // some were lost
		f.is(0, "one\ntwo\n")
		// The runtime closes the log a moment before it says that the container
		// has stopped.
		f.append(stamp + "stdout P end")
		n.send(Change{Dir: dir, Name: "0.log", Closed: true})
		s.set(nil, "c")
		require.NoError(t, f.endsWithin(firstRetry))
		f.is(0, "one\ntwo\nend")
		require.LessOrEqual(t, time.Since(began), firstRetry, "nothing waited for the period")
	})
}

func TestFollowEnds(t *testing.T) {
	for _, tc := range []struct {
		name, file, want string
		stopped          []string
		o                Options
	}{
		{"a container that has stopped", one + stamp + "stdout F ha", "one\nha", []string{"c"}, Options{}},
		{"a limit", one + two, "one\nt", nil, Options{LimitBytes: 5}},
		{"lines before the end", one + two, "two\n", []string{"c"}, Options{TailLines: new(int64(1))}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &states{}
				s.set(nil, tc.stopped...)
				f := startFollow(t, newReader(t, ReaderConfig{States: s, Notify: noNotifier}), write(t, tc.file), tc.o)
				require.NoError(t, f.endsWithin(0))
				f.is(0, tc.want)
			})
		})
	}
	t.Run("context", func(t *testing.T) {
		followed(t, ReaderConfig{}, one, func(f *running) {
			f.is(time.Hour, "one\n")
			f.cancel()
			require.ErrorIs(t, f.endsWithin(0), context.Canceled)
		})
	})
}

// A runtime that cannot be asked says nothing about the container.
func TestFollowCountsUnknownAsRunning(t *testing.T) {
	s := &states{}
	s.set(errors.New("unavailable"), "c")
	followed(t, ReaderConfig{States: s}, one, func(f *running) {
		time.Sleep(time.Minute)
		f.append(two)
		f.is(time.Second, "one\ntwo\n")
		s.set(nil, "c")
		require.NoError(t, f.endsWithin(time.Second))
	})
}

// #115701, #126564: the log is removed and made anew, or cut.
func TestFollowRecreated(t *testing.T) {
	s := &states{}
	followed(t, ReaderConfig{States: s}, one, func(f *running) {
		require.NoError(t, os.Remove(f.path))
		time.Sleep(5 * time.Second)
		f.append(two)
		f.is(time.Second, "one\ntwo\n")
		require.NoError(t, os.Truncate(f.path, 0))
		time.Sleep(2 * time.Second)
		f.append(one)
		f.is(time.Second, "one\ntwo\none\n")
		require.NoError(t, os.Remove(f.path))
		s.set(nil, "c")
		require.NoError(t, f.endsWithin(time.Second))
	})
}
