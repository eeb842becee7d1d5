package script_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/cri/fake/script"
)

func TestRandom(t *testing.T) {
	cfg := script.RandomConfig{
		Rules: 30, Pods: []string{"prod/a", "b"}, Containers: []string{"app"}, MaxDelay: time.Minute, MaxCount: 7,
		Events: true, Runs: true, Restarts: true,
	}
	all := ""
	for seed := range uint64(50) {
		s := script.Random(seed, cfg)
		require.Len(t, s.Rules, 30)
		require.NoError(t, s.Validate())
		require.Equal(t, s, script.Random(seed, cfg))
		again, err := script.Parse(s.String())
		require.NoError(t, err)
		require.Equal(t, s, again)
		for _, r := range s.Rules {
			require.LessOrEqual(t, r.Which.Percent, 10.0)
			for _, step := range r.Steps {
				require.LessOrEqual(t, step.Max, time.Minute)
				require.False(t, step.Kind == script.KindHang && step.Max == 0 && r.Subject != script.Run, "%s", r)
			}
		}
		all += s.String()
	}
	for _, part := range []string{"of pod b:", "of container app of pod prod/a:", "of container app:", "drop", "twice", "swap", "late", "restart", "until", "exit 137", "% of"} {
		if part == "of container app:" {
			require.NotContains(t, all, part, "a container is one of a pod when there are pods")
			continue
		}
		require.Contains(t, all, part)
	}
	plain := script.Random(3, script.RandomConfig{})
	require.Len(t, plain.Rules, 10)
	for _, word := range []string{"event", "run ", "restart", " of pod", " of container"} {
		require.NotContains(t, plain.String(), word)
	}
	require.NotEqual(t, plain.String(), script.Random(4, script.RandomConfig{}).String())
}

// A long random script on random calls: every call ends in time, and a second run
// is the same.
func TestRandomReplays(t *testing.T) {
	run := func(text string) (trace []string) {
		play(t, text, func(s *stage) {
			id := s.started(s.pod("a"), "app")
			start := time.Now()
			for range 100 {
				for _, call := range []func() error{
					s.version,
					func() error { _, err := s.ContainerStatus(s.t.Context(), id, false); return err },
					func() error { return s.ReopenContainerLog(s.t.Context(), id) },
				} {
					code := status.Code(call())
					trace = append(trace, code.String()+" "+time.Since(start).String())
				}
			}
		})
		return trace
	}
	text := script.Random(7, script.RandomConfig{
		Rules: 40, Pods: []string{"a"}, Calls: []string{"Version", "ContainerStatus", "ReopenContainerLog"}, MaxDelay: 10 * time.Second,
	}).String()
	first := run(text)
	require.Equal(t, first, run(text))
	require.Contains(t, strings.Join(first, "\n"), codes.Unavailable.String())
}

// Reduce finds the rule that matters among those of a random script.
func TestReduce(t *testing.T) {
	s := script.Random(1, script.RandomConfig{Rules: 20})
	s.Rules = append(s.Rules, script.On("Version", script.Fail(codes.DataLoss, "")).Chance(5))
	s.Rules = append(s.Rules, script.Random(2, script.RandomConfig{Rules: 20}).Rules...)
	reduced := script.Reduce(s, func(smaller script.Script) (failed bool) {
		play(t, smaller.String(), func(s *stage) {
			for range 100 {
				failed = failed || status.Code(s.version()) == codes.DataLoss
			}
		})
		return failed
	})
	require.Equal(t, "seed 1\n5% of Version: DataLoss\n", reduced.String())

	// What could not be taken away before may be once something else is gone.
	a, b := script.On("Version", script.Do()), script.On("Status", script.Do())
	reduced = script.Reduce(script.Script{Rules: []script.Rule{a, b}}, func(s script.Script) bool {
		return s.String() != "every Status: do\n"
	})
	require.Empty(t, reduced.Rules)
}
