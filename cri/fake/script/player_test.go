package script_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/cri"
)

// Each step of a call: how long the caller waits, what he gets, and whether the
// call has an effect.
func TestSteps(t *testing.T) {
	for _, c := range []struct {
		steps  string
		took   time.Duration
		code   codes.Code
		text   string
		effect bool
	}{
		{"take 3s", 3 * time.Second, codes.OK, "", true},
		{"take 3s, do, take 2s", 5 * time.Second, codes.OK, "", true},
		{"hang 30s", 30 * time.Second, codes.OK, "", true},
		{"hang 30s, then Unknown \"lost\"", 30 * time.Second, codes.Unknown, "lost", false},
		{"do, then hang 30s, then Unknown \"lost\"", 30 * time.Second, codes.Unknown, "lost", true},
		{"Unavailable", 0, codes.Unavailable, "", false},
		{"hang", time.Minute, codes.DeadlineExceeded, "context deadline exceeded", false},
		{"do, then hang", time.Minute, codes.DeadlineExceeded, "context deadline exceeded", true},
		{"take 2m", time.Minute, codes.DeadlineExceeded, "context deadline exceeded", false},
		{"empty reply", 0, codes.OK, "", false},
		{"do, then empty reply", 0, codes.OK, "", true},
	} {
		play(t, "every RunPodSandbox: "+c.steps, func(s *stage) {
			ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
			defer cancel()
			var id string
			err := takes(t, c.took, func() (err error) {
				id, err = s.RunPodSandbox(ctx, podConfig("prod", "a"), "")
				return err
			})
			require.Equal(t, c.code, status.Code(err), c.steps)
			require.Equal(t, c.text, status.Convert(err).Message(), c.steps)
			list, err := s.ListPodSandbox(s.t.Context(), nil)
			require.NoError(t, err)
			require.Equal(t, c.effect, len(list) == 1, c.steps)
			require.Equal(t, c.effect && c.code == codes.OK && c.steps != "do, then empty reply", id != "", c.steps)
		})
	}
}

func TestExecSync(t *testing.T) {
	play(t, "1st ExecSync: exit 3 \"no\"\n2nd ExecSync: exit 0 \"yes\"\n3rd ExecSync: take 1s, then DeadlineExceeded \"slow\"", func(s *stage) {
		id := s.started(s.pod("a"), "app")
		for _, want := range []struct {
			stdout string
			is     error
		}{{"no", &cri.ExitError{Code: 3, Stdout: []byte("no")}}, {"yes", nil}, {"", cri.ErrExecTimeout}, {"", nil}} {
			stdout, _, err := s.ExecSync(s.t.Context(), id, []string{"probe"}, 0)
			require.Equal(t, want.stdout, string(stdout))
			if exited, ok := want.is.(*cri.ExitError); ok {
				require.Equal(t, exited, err)
			} else {
				require.ErrorIs(t, err, want.is)
			}
		}
	})
}
