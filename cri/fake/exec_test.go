package fake_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
)

func TestExecSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		rt := start(t, fake.Config{AnyImage: true, Exec: fake.ByCommand(map[string]fake.Program{
			"say": func(_ context.Context, p *fake.Process) int {
				fmt.Fprint(p.Stdout, p.Args[1:], p.Exec)
				fmt.Fprint(p.Stderr, p.Container.Name)
				return 0
			},
			"fail":  fake.Exit(2),
			"sleep": fake.SleepUntilStopped,
		}, nil)})
		_, id := running(t, rt)
		stdout, stderr, err := rt.ExecSync(ctx, id, []string{"say", "a"}, 0)
		require.NoError(t, err)
		require.Equal(t, "[a] true", string(stdout))
		require.Equal(t, "c", string(stderr))
		var failed *cri.ExitError
		_, _, err = rt.ExecSync(ctx, id, []string{"fail"}, time.Second)
		require.ErrorAs(t, err, &failed)
		require.EqualValues(t, 2, failed.Code)
		_, _, err = rt.ExecSync(ctx, id, []string{"missing"}, 0)
		require.ErrorIs(t, err, fake.ErrNotFound)
		_, _, err = rt.ExecSync(ctx, id, nil, 0)
		require.Equal(t, codes.InvalidArgument, status.Code(err))
		_, _, err = rt.ExecSync(ctx, "nope", []string{"say"}, 0)
		require.True(t, cri.IsNotFound(err))

		began := time.Now()
		_, _, err = rt.ExecSync(ctx, id, []string{"sleep"}, 5*time.Second)
		require.ErrorIs(t, err, cri.ErrExecTimeout)
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))
		require.Equal(t, 5*time.Second, time.Since(began))
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, _, err = rt.ExecSync(short, id, []string{"sleep"}, time.Hour)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, cri.ErrExecTimeout)

		time.AfterFunc(3*time.Second, func() { _ = rt.StopContainer(ctx, id, 0) })
		_, _, err = rt.ExecSync(ctx, id, []string{"sleep"}, 0)
		require.ErrorAs(t, err, &failed)
		require.EqualValues(t, 137, failed.Code, "an exec ends with its container")
		_, _, err = rt.ExecSync(ctx, id, []string{"say"}, 0)
		require.Equal(t, codes.FailedPrecondition, status.Code(err))
	})
}
