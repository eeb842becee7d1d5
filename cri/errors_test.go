package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// requireCallError checks that err contains endpoint, call and object.
func requireCallError(t *testing.T, err error, call, object string) *CallError {
	t.Helper()
	var e *CallError
	require.ErrorAs(t, err, &e, call)
	require.Equal(t, call, e.Call)
	require.Equal(t, object, e.Object, call)
	named := call
	if object != "" {
		named += " " + object
	}
	require.Contains(t, err.Error(), " unix:///run/scripted.sock: "+named+": ")
	return e
}

// C38: every failure of the runtime keeps its code and text, also the runtime's own
// DeadlineExceeded.
func TestErrorsKeepTheirStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := bothClients(t)
		for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
			for _, c := range everyCall {
				if c.name == "RemoveImage" && code == codes.NotFound {
					continue // counts as success
				}
				s.fail(c.name, status.Error(code, "words of the runtime"))
				err := n.make(t.Context(), c)
				e := requireCallError(t, err, c.name, c.object)
				wrapped := fmt.Errorf("pod default/a: %w", err)
				require.Equal(t, code, status.Code(wrapped), c.name)
				require.Equal(t, "words of the runtime", e.Message(), c.name)
				require.Zero(t, e.Timeout)
				require.Equal(t, code == codes.NotFound, IsNotFound(wrapped))
				require.Equal(t, code == codes.Unimplemented, IsUnimplemented(wrapped))
				require.NotErrorIs(t, err, context.Canceled, "only the caller can cancel")
				require.Equal(t, code == codes.DeadlineExceeded, errors.Is(err, context.DeadlineExceeded))
				s.fail(c.name, nil)
			}
		}
	})
}

func TestErrorText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := bothClients(t)
		s.fail("StartContainer", status.Error(codes.NotFound, "no such container"))
		require.EqualError(t, n.runtime.StartContainer(t.Context(), "c"),
			"runtime unix:///run/scripted.sock: StartContainer c: NotFound: no such container")
		// A pull error without code has no code in its text, and the runtime's name for the
		// failure begins the message.
		s.fail("PullImage", errors.New("RegistryUnavailable: connection refused"))
		_, err := n.images.PullImage(t.Context(), busybox, nil, nil)
		require.EqualError(t, err, "image unix:///run/scripted.sock: PullImage busybox: RegistryUnavailable: connection refused")
		require.Equal(t, "RegistryUnavailable: connection refused", requireCallError(t, err, "PullImage", "busybox").Message())
		s.fail("StartContainer", status.Error(codes.Internal, strings.Repeat("é", 1<<19)))
		err = n.runtime.StartContainer(t.Context(), "c")
		require.Equal(t, codes.Internal, status.Code(err))
		require.Len(t, requireCallError(t, err, "StartContainer", "c").Message(), 4<<10)
	})
}

func TestCancelledByTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := bothClients(t)
		gone := errors.New("pod is gone")
		for _, c := range everyCall {
			s.hanging(c.name, true)
			ctx, cancel := context.WithCancelCause(t.Context())
			timer := time.AfterFunc(time.Second, func() { cancel(gone) })
			begin := time.Now()
			err := n.make(ctx, c)
			timer.Stop()
			require.Equal(t, time.Second, time.Since(begin), c.name)
			require.Zero(t, requireCallError(t, err, c.name, c.object).Timeout)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, gone)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, codes.Canceled, status.Code(err))
			synctest.Wait()
			require.ErrorIs(t, s.last(c.name).err, context.Canceled, "the runtime sees it")

			before := len(s.calls(c.name))
			require.ErrorIs(t, n.make(ctx, c), context.Canceled)
			require.Len(t, s.calls(c.name), before, "a call whose context has ended is not made")
			s.hanging(c.name, false)
		}
	})
}

// The caller's context shortens a deadline and never lengthens it. The error shows which deadline
// expired.
func TestCallersDeadlineIsNotTheClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := bothClients(t)
		s.hanging("StartContainer", true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := n.runtime.StartContainer(ctx, "c")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, requireCallError(t, err, "StartContainer", "c").Timeout)
		require.Equal(t, time.Second, s.last("StartContainer").left)

		long, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err = n.runtime.StartContainer(long, "c")
		require.Equal(t, 2*time.Minute, s.last("StartContainer").left)
		require.Equal(t, 2*time.Minute, requireCallError(t, err, "StartContainer", "c").Timeout)
	})
}

func TestExecSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := bothClients(t)
		s.reply("ExecSync", &runtimeapi.ExecSyncResponse{Stdout: []byte("out"), Stderr: []byte("err"), ExitCode: 3})
		stdout, stderr, err := n.runtime.ExecSync(t.Context(), "c", []string{"false"}, time.Second)
		var exit *ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, &ExitError{Code: 3, Stdout: []byte("out"), Stderr: []byte("err")}, exit)
		require.Equal(t, "out", string(stdout))
		require.Equal(t, "err", string(stderr))

		s.fail("ExecSync", status.Error(codes.DeadlineExceeded, "timeout 1s exceeded"))
		_, _, err = n.runtime.ExecSync(t.Context(), "c", []string{"sleep", "9"}, time.Second)
		require.ErrorIs(t, err, ErrExecTimeout)
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))

		s.hanging("ExecSync", true)
		_, _, err = n.runtime.ExecSync(t.Context(), "c", []string{"sleep", "9"}, time.Second)
		require.ErrorIs(t, err, ErrExecTimeout)

		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err = n.runtime.ExecSync(short, "c", []string{"sleep", "9"}, 9*time.Second)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, ErrExecTimeout)

		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(time.Hour, cancel).Stop()
		_, _, err = n.runtime.ExecSync(ctx, "c", []string{"sleep", "9"}, 0)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ErrExecTimeout)
	})
}

func TestRemovingAnAbsentImageSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := bothClients(t)
		s.fail("RemoveImage", status.Error(codes.NotFound, "no such image"))
		require.NoError(t, n.images.RemoveImage(t.Context(), &runtimeapi.ImageSpec{}))
		s.reply("ImageStatus", &runtimeapi.ImageStatusResponse{})
		reply, err := n.images.ImageStatus(t.Context(), &runtimeapi.ImageSpec{}, false)
		require.NoError(t, err)
		require.Nil(t, reply.Image)
	})
}

func TestHelpersOnOtherErrors(t *testing.T) {
	require.False(t, IsNotFound(nil))
	require.False(t, IsUnimplemented(nil))
	require.False(t, IsNotFound(errors.New("not found")))
	require.True(t, IsNotFound(fmt.Errorf("a: %w", status.Error(codes.NotFound, ""))))
}

func TestTooLarge(t *testing.T) {
	for text, want := range map[string]error{
		"grpc: trying to send message larger than max (20 vs. 16)":                      ErrReplyTooLarge,
		"trying to send message larger than max (20 vs. 16)":                            ErrReplyTooLarge,
		"grpc: received message larger than max (20 vs. 16)":                            ErrReplyTooLarge,
		"received message larger than max (20 vs. 16)":                                  ErrReplyTooLarge,
		"grpc: received message larger than max (123 vs. 16)":                           ErrRequestTooLarge,
		"trying to send message larger than max (123 vs. 16)":                           ErrReplyTooLarge,
		"no space left on device":                                                       nil,
		"failed to list containers: grpc: received message larger than max (20 vs. 16)": nil,
		"toomanyrequests: pull rate limit larger than max":                              nil,
		"grpc: the client connection is closing":                                        nil,
	} {
		require.Equal(t, want, tooLarge(status.Error(codes.ResourceExhausted, text), 123), text)
	}
}
