package logs

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// listed is a runtime that knows containers by their states.
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
	}}
	states := RuntimeStates(l)
	ids := []string{"running", "exited", "created", "unknown", "gone"}
	want := []bool{true, false, false, true, false}
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
