package fake_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

var errLost = status.Error(codes.Unavailable, "lost")

func withRules(t *testing.T, seed uint64, rules []fake.Rule, test func(t *testing.T, rt *fake.Runtime)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r, err := fake.NewRules(seed, rules...)
		require.NoError(t, err)
		test(t, start(t, fake.Config{AnyImage: true, Intercept: r.Intercept}))
	})
}

// outcomes returns the durations of n calls in seconds, negative for failed calls.
func outcomes(n int, call func() error) []int {
	var out []int
	for range n {
		began := time.Now()
		err := call()
		took := int(time.Since(began) / time.Second)
		if err != nil {
			took = -took - 1
		}
		out = append(out, took)
	}
	return out
}

func TestRulesSelectByCount(t *testing.T) {
	for name, c := range map[string]struct {
		rules []fake.Rule
		want  []int
	}{
		"each":           {[]fake.Rule{{Call: "Version", Err: errLost}}, []int{-1, -1, -1, -1, -1}},
		"any call":       {[]fake.Rule{{Latency: time.Second}}, []int{1, 1, 1, 1, 1}},
		"another call":   {[]fake.Rule{{Call: "Status", Err: errLost}}, []int{0, 0, 0, 0, 0}},
		"one":            {[]fake.Rule{{Call: "Version", Nth: 2, Err: errLost}}, []int{0, -1, 0, 0, 0}},
		"first ones":     {[]fake.Rule{{Call: "Version", Times: 2, Err: errLost}}, []int{-1, -1, 0, 0, 0}},
		"some":           {[]fake.Rule{{Call: "Version", Nth: 2, Times: 3, Err: errLost}}, []int{0, -1, -1, -1, 0}},
		"from one on":    {[]fake.Rule{{Call: "Version", Nth: 4, Times: math.MaxInt, Err: errLost}}, []int{0, 0, 0, -1, -1}},
		"late and lost":  {[]fake.Rule{{Nth: 1, Latency: 30 * time.Second, Err: errLost}}, []int{-31, 0, 0, 0, 0}},
		"latencies":      {[]fake.Rule{{Latency: time.Second}, {Nth: 3, Latency: 2 * time.Second}}, []int{1, 1, 3, 1, 1}},
		"error is last":  {[]fake.Rule{{Nth: 2, Err: errLost}, {Latency: time.Second}}, []int{1, -1, 1, 1, 1}},
		"own counts":     {[]fake.Rule{{Nth: 2, Err: errLost}, {Nth: 3, Err: errLost}}, []int{0, -1, -1, 0, 0}},
		"certain chance": {[]fake.Rule{{Chance: 1, Err: errLost}}, []int{-1, -1, -1, -1, -1}},
	} {
		t.Run(name, func(t *testing.T) {
			withRules(t, 0, c.rules, func(t *testing.T, rt *fake.Runtime) {
				require.Equal(t, c.want, outcomes(5, func() error { _, err := rt.Version(t.Context()); return err }))
			})
		})
	}
}

// A rule with a pod or a container acts on all calls with an ID or a config of it.
func TestRulesSelectByObject(t *testing.T) {
	for name, c := range map[string]struct {
		rule fake.Rule
		want []string
	}{
		"pod":                  {fake.Rule{Pod: "p"}, []string{"run p", "create", "start", "exec", "stop", "pod status", "pull"}},
		"pod with namespace":   {fake.Rule{Pod: "default/p"}, []string{"run p", "create", "start", "exec", "stop", "pod status", "pull"}},
		"another namespace":    {fake.Rule{Pod: "prod/p"}, nil},
		"another pod":          {fake.Rule{Pod: "q"}, []string{"run q"}},
		"container":            {fake.Rule{Container: "c"}, []string{"create", "start", "exec", "stop"}},
		"container of a pod":   {fake.Rule{Pod: "q", Container: "c"}, nil},
		"call of a container":  {fake.Rule{Call: "StopContainer", Container: "c"}, []string{"stop"}},
		"another container":    {fake.Rule{Container: "d"}, nil},
		"call without objects": {fake.Rule{Call: "ListContainers"}, []string{"list"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.rule.Latency = time.Second
			withRules(t, 0, []fake.Rule{c.rule}, func(t *testing.T, rt *fake.Runtime) {
				var slow []string
				var sandboxID, id string
				pod, ctx := podConfig("p"), t.Context()
				for _, step := range []struct {
					name string
					call func() error
				}{
					{"run p", func() (err error) { sandboxID, err = rt.RunPodSandbox(ctx, pod, ""); return err }},
					{"run q", func() error { _, err := rt.RunPodSandbox(ctx, podConfig("q"), ""); return err }},
					{"pull", func() error { _, err := rt.PullImage(ctx, &runtimeapi.ImageSpec{Image: "a"}, nil, pod); return err }},
					{"create", func() (err error) {
						id, err = rt.CreateContainer(ctx, sandboxID, containerConfig("p", "c"), pod)
						return err
					}},
					{"start", func() error { return rt.StartContainer(ctx, id) }},
					{"exec", func() error { _, _, err := rt.ExecSync(ctx, id, []string{"a"}, 0); return err }},
					{"stop", func() error { return rt.StopContainer(ctx, id, 0) }},
					{"list", func() error { _, err := rt.ListContainers(ctx, nil); return err }},
					{"pod status", func() error { _, err := rt.PodSandboxStatus(ctx, sandboxID, false); return err }},
				} {
					began := time.Now()
					require.NoError(t, step.call(), step.name)
					if time.Since(began) == time.Second {
						slow = append(slow, step.name)
					}
				}
				require.ElementsMatch(t, c.want, slow)
			})
		})
	}
}

// A failed call has no effect and keeps its code; a call whose context ends fails with it.
func TestRulesFailCalls(t *testing.T) {
	for name, c := range map[string]struct {
		rule fake.Rule
		took time.Duration
		code codes.Code
	}{
		"error":       {fake.Rule{Latency: 30 * time.Second, Err: errLost}, 30 * time.Second, codes.Unavailable},
		"plain error": {fake.Rule{Err: errors.New("lost")}, 0, codes.Unknown},
		"hanging":     {fake.Rule{Latency: time.Hour, Err: errLost}, time.Minute, codes.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			c.rule.Call = "RunPodSandbox"
			withRules(t, 0, []fake.Rule{c.rule}, func(t *testing.T, rt *fake.Runtime) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				_, err := rt.RunPodSandbox(ctx, podConfig("a"), "")
				require.Equal(t, c.code, status.Code(err))
				require.Equal(t, c.took, time.Since(began))
				list, err := rt.ListPodSandbox(t.Context(), nil)
				require.NoError(t, err)
				require.Empty(t, list)
			})
		})
	}
}

// The same seed repeats a run, and further rules do not change it.
func TestChancesFollowFromTheSeed(t *testing.T) {
	run := func(seed uint64, rules ...fake.Rule) (out []int) {
		withRules(t, seed, rules, func(t *testing.T, rt *fake.Runtime) {
			out = outcomes(1000, func() error { _, err := rt.Version(t.Context()); return err })
		})
		return out
	}
	rule := fake.Rule{Chance: 0.1, Err: errLost}
	first := run(1, rule)
	require.Equal(t, first, run(1, rule))
	require.Equal(t, first, run(1, fake.Rule{Call: "Version", Chance: 1}, rule))
	require.NotEqual(t, first, run(2, rule))
	failed := 0
	for _, outcome := range first {
		failed -= outcome
	}
	require.InDelta(t, 100, failed, 30)
}

func TestBadRules(t *testing.T) {
	for want, rule := range map[string]fake.Rule{
		`field Call: unknown call "Stop"`:                            {Call: "Stop"},
		`field Pod: calls of ListContainers have no pod`:             {Call: "ListContainers", Pod: "a"},
		`field Container: calls of StopPodSandbox have no container`: {Call: "StopPodSandbox", Container: "a"},
		`field Pod: "a/b/c" is neither name nor namespace/name`:      {Pod: "a/b/c"},
		`field Pod: "/b" is neither name nor namespace/name`:         {Pod: "/b"},
		`field Pod: "a/" is neither name nor namespace/name`:         {Pod: "a/"},
		`field Nth -1 is negative`:                                   {Nth: -1},
		`field Times -1 is negative`:                                 {Times: -1},
		`field Chance 1.5 is not between 0 and 1`:                    {Chance: 1.5},
		`field Chance -1 is not between 0 and 1`:                     {Chance: -1},
		`field Chance NaN is not between 0 and 1`:                    {Chance: math.NaN()},
		`field Latency -1s is negative`:                              {Latency: -time.Second},
	} {
		_, err := fake.NewRules(0, fake.Rule{}, rule)
		require.EqualError(t, err, "fake: rule 1: "+want)
	}
}
