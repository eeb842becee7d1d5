package cri

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func driverReply(d runtimeapi.CgroupDriver) *runtimeapi.RuntimeConfigResponse {
	return &runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: d}}
}

func TestCgroupDriver(t *testing.T) {
	busy := status.Error(codes.Unavailable, "busy")
	lacking := status.Error(codes.Unimplemented, "unknown method RuntimeConfig")
	for _, c := range []struct {
		name       string
		configured string
		answers    []any
		want       string
		failure    error
		waited     time.Duration
	}{
		{"the runtime reports systemd (A9, A12)", "cgroupfs", []any{driverReply(runtimeapi.CgroupDriver_SYSTEMD)}, "systemd", nil, 0},
		{"runtime says cgroupfs", "systemd", []any{driverReply(runtimeapi.CgroupDriver_CGROUPFS)}, "cgroupfs", nil, 0},
		{"the runtime reports an unknown driver", "systemd", []any{driverReply(7)}, "", ErrUnknownCgroupDriver, 0},
		{"no linux section", "systemd", []any{&runtimeapi.RuntimeConfigResponse{}}, "systemd", nil, 0},
		{"Unimplemented keeps the configured driver (A10)", "systemd", []any{lacking}, "systemd", nil, 0},
		{"Unimplemented, nothing configured", "", []any{lacking}, "cgroupfs", nil, 0},
		{"the third try counts", "", []any{busy, busy, driverReply(runtimeapi.CgroupDriver_SYSTEMD)}, "systemd", nil, 4 * time.Second},
		{"Unimplemented at the second try", "systemd", []any{busy, lacking}, "systemd", nil, 2 * time.Second},
		{"three failures (A11)", "systemd", []any{busy, busy, busy}, "", busy, 4 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				runtime := runtimeInfo{config: func(context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
					asked++
					if err, ok := c.answers[asked-1].(error); ok {
						return nil, err
					}
					return c.answers[asked-1].(*runtimeapi.RuntimeConfigResponse), nil
				}}
				begin := time.Now()
				got, supported, err := CgroupDriver(t.Context(), runtime, c.configured)
				require.ErrorIs(t, err, c.failure)
				require.Equal(t, c.want, got)
				_, answered := c.answers[len(c.answers)-1].(*runtimeapi.RuntimeConfigResponse)
				require.Equal(t, answered && err == nil, supported)
				require.Equal(t, c.waited, time.Since(begin))
				require.Equal(t, len(c.answers), asked)
			})
		})
	}
}

func TestCgroupDriverCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := errors.New("busy")
		runtime := runtimeInfo{config: func(context.Context) (*runtimeapi.RuntimeConfigResponse, error) { return nil, busy }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := CgroupDriver(ctx, runtime, "")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, busy)
	})
}

func TestCgroupDriverRefuses(t *testing.T) {
	_, _, err := CgroupDriver(t.Context(), runtimeInfo{}, "cgroupv2")
	require.ErrorContains(t, err, `"cgroupv2"`)
}

type runtimeInfo struct {
	RuntimeInfo
	config func(context.Context) (*runtimeapi.RuntimeConfigResponse, error)
}

func (r runtimeInfo) RuntimeConfig(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	return r.config(ctx)
}
