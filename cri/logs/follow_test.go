package logs

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Without a notifier, changes are found once a period.
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
		f := startFollow(t, notified(t, ReaderConfig{States: s}, n.notify), write(t, ""), Options{})
		began := time.Now()
		f.append(one)
		n.send(f, change{name: "0.log"})
		f.is(0, "one\n")
		f.append(two)
		n.send(f, change{name: "10.log"})
		n.send(f, change{name: "0.logs"})
		n.changes <- change{watch: 7, name: "0.log"}
		f.is(0, "one\n")
		n.send(f, change{lost: true})
		f.is(0, "one\ntwo\n")
		// The runtime closes the log a moment before it reports the container's end.
		f.append(stamp + "stdout P end")
		n.send(f, change{name: "0.log", closed: true})
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
				f := startFollow(t, notified(t, ReaderConfig{States: s}, noNotifier), write(t, tc.file), tc.o)
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

// A container in an unknown state counts as running.
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

// #115701, #126564: a follower continues after the log was recreated or truncated.
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

// listed is a runtime with containers in given states.
type listed struct {
	states map[string]runtimeapi.ContainerState
	err    error
	lists  int
}

func (l *listed) ContainerStatus(_ context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	state, ok := l.states[id]
	if l.err != nil {
		return nil, l.err
	}
	if !ok {
		return nil, status.Error(codes.NotFound, "none")
	}
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{Id: id, State: state}}, nil
}

func (l *listed) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	l.lists++
	var list []*runtimeapi.Container
	for id, state := range l.states {
		list = append(list, &runtimeapi.Container{Id: id, State: state})
	}
	return list, l.err
}

func TestRuntimeStates(t *testing.T) {
	l := &listed{states: map[string]runtimeapi.ContainerState{
		"running": runtimeapi.ContainerState_CONTAINER_RUNNING,
		"exited":  runtimeapi.ContainerState_CONTAINER_EXITED,
		"created": runtimeapi.ContainerState_CONTAINER_CREATED,
		"unknown": runtimeapi.ContainerState_CONTAINER_UNKNOWN,
		"newer":   99,
	}}
	states := RuntimeStates(l)
	ids := []string{"running", "exited", "created", "unknown", "newer", "gone"}
	want := []bool{true, false, false, true, true, false}
	for i := range ids {
		got, err := states.Running(t.Context(), ids[i:i+1])
		require.NoError(t, err)
		require.Equal(t, want[i:i+1], got, ids[i])
	}
	require.Zero(t, l.lists, "one is asked about by itself")
	got, err := states.Running(t.Context(), ids)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, 1, l.lists)
	l.err = errors.New("down")
	for _, ids := range [][]string{ids, ids[:1]} {
		_, err = states.Running(t.Context(), ids)
		require.ErrorIs(t, err, l.err)
	}
}
