package script_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/fake/script"
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

func TestContextErrors(t *testing.T) {
	play(t, "1st Version: hang\n2nd Version: take 1h\n3rd Version: DeadlineExceeded \"late\"\n4th Version: Canceled", func(s *stage) {
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
		defer cancel()
		_, err := s.Version(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = s.Version(ctx) // has ended before: the call is not made, nor counted
		require.ErrorIs(t, err, context.DeadlineExceeded)
		ctx, cancel = context.WithCancel(s.t.Context())
		time.AfterFunc(time.Second, cancel)
		require.ErrorIs(t, takes(t, time.Second, func() error { _, err := s.Version(ctx); return err }), context.Canceled)
		err = s.version()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, "rpc error: code = DeadlineExceeded desc = late")
		err = s.version()
		require.Equal(t, codes.Canceled, status.Code(err))
		require.NotErrorIs(t, err, context.Canceled, "nobody called it off")
		require.NoError(t, s.version())
	})
}

func TestExecSync(t *testing.T) {
	play(t, "1st ExecSync: exit 3 \"no\"\n2nd ExecSync: exit 0 \"yes\"\n3rd ExecSync: take 1s, then DeadlineExceeded \"slow\"", func(s *stage) {
		id := s.started(s.pod("a"), "app")
		exec := func() (string, string, error) {
			stdout, stderr, err := s.ExecSync(s.t.Context(), id, []string{"probe"}, 0)
			return string(stdout), string(stderr), err
		}
		stdout, _, err := exec()
		var exited *cri.ExitError
		require.ErrorAs(t, err, &exited)
		require.EqualValues(t, 3, exited.Code)
		require.Equal(t, "no", stdout)
		stdout, _, err = exec()
		require.NoError(t, err)
		require.Equal(t, "yes", stdout)
		_, _, err = exec()
		require.ErrorIs(t, err, cri.ErrExecTimeout)
		stdout, stderr, err := exec()
		require.NoError(t, err)
		require.Empty(t, stdout+stderr)
	})
}

func TestEmptyReplies(t *testing.T) {
	play(t, "every Version: empty reply\nevery ListContainers: empty reply\nevery StopContainer: empty reply", func(s *stage) {
		version, err := s.Version(s.t.Context())
		require.NoError(t, err)
		require.NotNil(t, version)
		require.Empty(t, version.GetVersion())
		id := s.started(s.pod("a"), "app")
		list, err := s.ListContainers(s.t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, list)
		require.NoError(t, s.StopContainer(s.t.Context(), id, 0))
		require.Equal(t, runtimeapi.ContainerState_CONTAINER_RUNNING, s.status(id).GetState())
	})
}

// The same seed gives the same, another one something else, and rules around do
// not matter.
func TestSeed(t *testing.T) {
	run := func(text string) (pattern string) {
		play(t, text, func(s *stage) { pattern = s.pattern(200) })
		return pattern
	}
	first := run("seed 1\n30% of Version: Unknown")
	require.Equal(t, first, run("seed 1\n30% of Version: Unknown"))
	require.Equal(t, first, run("seed 1\nevery Version: take 1s\n30% of Version: Unknown"))
	require.NotEqual(t, first, run("seed 2\n30% of Version: Unknown"))
	hits := 0
	for _, mark := range first {
		if mark == 'x' {
			hits++
		}
	}
	require.InDelta(t, 60, hits, 25)
	play(t, "seed 5\nevery Version: take 10ms to 40ms", func(s *stage) {
		different := map[time.Duration]bool{}
		for range 50 {
			start := time.Now()
			require.NoError(t, s.version())
			took := time.Since(start)
			require.GreaterOrEqual(t, took, 10*time.Millisecond)
			require.LessOrEqual(t, took, 40*time.Millisecond)
			different[took] = true
		}
		require.Greater(t, len(different), 40)
	})
}

// All latencies count, and the first of the others decides.
func TestComposition(t *testing.T) {
	text := "every call: take 1s\n1st Version: do, then Unavailable\n1st to 2nd Version: Unknown\nevery Version: take 10s\nevery call: take 2s to 2s"
	play(t, text, func(s *stage) {
		require.Equal(t, codes.Unavailable, status.Code(takes(t, 13*time.Second, s.version)))
		require.Equal(t, codes.Unknown, status.Code(takes(t, 13*time.Second, s.version)))
		require.NoError(t, takes(t, 13*time.Second, s.version))
		fired := []int{}
		for _, f := range s.Fired() {
			require.Positive(t, f.Matched)
			fired = append(fired, f.Fired)
		}
		require.Equal(t, []int{3, 1, 1, 3, 3}, fired)
		require.Empty(t, s.Unused())
		require.Equal(t, 3, s.Fired()[1].Matched)
	})
	play(t, "2nd Version: Unknown\n1st Version: do\nevery run: exit 0", func(s *stage) {
		require.NoError(t, s.version())
		require.Len(t, s.Unused(), 1)
		require.Equal(t, "2nd Version: Unknown", s.Unused()[0].String())
	})
}

func TestRestart(t *testing.T) {
	type restart struct {
		keep bool
		at   time.Duration
	}
	var restarts []restart
	var start time.Time
	lost := errors.New("no")
	cfg := script.Config{Restart: func(ctx context.Context, keep bool) error {
		restarts = append(restarts, restart{keep, time.Since(start)})
		if len(restarts) == 3 {
			return lost
		}
		return nil
	}}
	text := "2nd call: take 1s, then restart\n3rd Version: do, then restart losing state, then Unavailable\n4th Version: restart"
	playOn(t, text, fake.Config{}, cfg, func(s *stage) {
		start = time.Now()
		require.NoError(t, s.version())
		require.NoError(t, s.version())
		require.Equal(t, codes.Unavailable, status.Code(s.version()))
		err := s.version()
		require.ErrorIs(t, err, lost)
		require.Equal(t, codes.Internal, status.Code(err))
	})
	require.Equal(t, []restart{{true, time.Second}, {false, time.Second}, {true, time.Second}}, restarts)
}

// The fake restarts within the call that it is told in, and loses its containers.
func TestRestartOfTheFake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules, err := script.Parse("2nd ListContainers: restart\n3rd ListContainers: do, then restart losing state, then Unavailable")
		require.NoError(t, err)
		rt, err := fake.New(fakeWithImages())
		require.NoError(t, err)
		defer func() { require.NoError(t, rt.Close()) }()
		p, err := script.New(script.Config{Script: rules, Runtime: rt, Restart: func(ctx context.Context, keepState bool) error {
			opts := fake.RestartOptions{Down: 3 * time.Second}
			if !keepState {
				opts.Loss = fake.LoseAll
			}
			return rt.Restart(ctx, opts)
		}})
		require.NoError(t, err)
		s := &stage{Player: p, t: t, fake: rt}
		s.started(s.pod("a"), "app")
		for _, want := range []struct {
			took  time.Duration
			code  codes.Code
			count int
		}{{0, codes.OK, 1}, {3 * time.Second, codes.OK, 1}, {3 * time.Second, codes.Unavailable, 0}, {0, codes.OK, 0}} {
			var list []*runtimeapi.Container
			err := takes(t, want.took, func() (err error) {
				list, err = p.ListContainers(t.Context(), nil)
				return err
			})
			require.Equal(t, want.code, status.Code(err))
			require.Len(t, list, want.count)
		}
	})
}

func TestNew(t *testing.T) {
	rt, err := fake.New(fake.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	onlyRuntime := struct{ cri.RuntimeService }{rt}
	for problem, cfg := range map[string]script.Config{
		"script: Config.Runtime is required":                               {},
		"script: Config.Images is required, since Runtime has no images":   {Runtime: onlyRuntime},
		"script: Rules[0].Steps[0]: a rule needs a step":                   {Runtime: rt, Script: script.Script{Rules: []script.Rule{script.On("call")}}},
		`script: Config.Restart is required by rule "every call: restart"`: {Runtime: rt, Script: script.Script{Rules: []script.Rule{script.On("call", script.Restart())}}},
	} {
		_, err := script.New(cfg)
		require.EqualError(t, err, problem)
	}
	rules := []script.Rule{script.On("Version", script.Do())}
	p, err := script.New(script.Config{Runtime: onlyRuntime, Images: rt, Script: script.Script{Seed: 3, Rules: rules}})
	require.NoError(t, err)
	rules[0].Steps[0] = script.Hang()
	require.Equal(t, "seed 3\nevery Version: do\n", p.Script().String(), "nothing of the config is shared")
	require.NoError(t, func() error { _, err := p.Version(t.Context()); return err }())
}

// Every count is given to exactly one of many calls at once.
func TestConcurrency(t *testing.T) {
	text := "every 3rd call of container app: take 1s\n1st to 50th ContainerStatus: Unavailable\n10% of ContainerStatus: Unknown"
	play(t, text, func(s *stage) {
		id := s.started(s.pod("a"), "app")
		var mu sync.Mutex
		counts := map[codes.Code]int{}
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				for range 10 {
					_, err := s.ContainerStatus(s.t.Context(), id, false)
					mu.Lock()
					counts[status.Code(err)]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		require.Equal(t, 50, counts[codes.Unavailable])
		require.Equal(t, 400, counts[codes.OK]+counts[codes.Unavailable]+counts[codes.Unknown])
		fired := s.Fired()
		require.Equal(t, 400, fired[0].Matched)
		require.Equal(t, 133, fired[0].Fired)
		require.Equal(t, counts[codes.Unknown], fired[2].Fired)
	})
}

// Every method passes its arguments and its reply through.
func TestEveryCall(t *testing.T) {
	var seen []string
	cfg := script.Config{Observe: func(c script.Call) { seen = append(seen, c.Name) }}
	playOn(t, "every call: Unavailable \"all\"", fake.Config{}, cfg, func(s *stage) {
		ctx := s.t.Context()
		for _, call := range everyCall(ctx, s.Player, s.Player) {
			require.Equal(t, "all", status.Convert(call()).Message())
		}
	})
	require.Equal(t, script.Calls(), seen)
	playOn(t, "", fake.Config{AnyImage: true}, script.Config{}, func(s *stage) {
		direct := everyCall(s.t.Context(), s.fake, s.fake)
		for i, call := range everyCall(s.t.Context(), s.Player, s.Player) {
			if name := script.Calls()[i]; name != "GetContainerEvents" {
				require.Equal(t, status.Convert(direct[i]()).Message(), status.Convert(call()).Message(), name)
			}
		}
	})
}

// everyCall are all calls in the order of script.Calls, with what they name missing.
func everyCall(ctx context.Context, r cri.RuntimeService, i cri.ImageService) []func() error {
	image := &runtimeapi.ImageSpec{Image: "i"}
	of := func(_ any, err error) error { return err }
	return []func() error{
		func() error { return of(r.Version(ctx)) },
		func() error { return of(r.Status(ctx, true)) },
		func() error { return of(r.RuntimeConfig(ctx)) },
		func() error { return r.UpdateRuntimeConfig(ctx, nil) },
		func() error { return of(r.RunPodSandbox(ctx, nil, "h")) },
		func() error { return r.StopPodSandbox(ctx, "s") },
		func() error { return r.RemovePodSandbox(ctx, "s") },
		func() error { return of(r.PodSandboxStatus(ctx, "s", true)) },
		func() error { return of(r.ListPodSandbox(ctx, nil)) },
		func() error {
			return r.UpdatePodSandboxResources(ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{PodSandboxId: "s"})
		},
		func() error { return of(r.CreateContainer(ctx, "s", containerConfig("c", 0), nil)) },
		func() error { return r.StartContainer(ctx, "c") },
		func() error { return r.StopContainer(ctx, "c", 1) },
		func() error { return r.RemoveContainer(ctx, "c") },
		func() error { return of(r.ContainerStatus(ctx, "c", true)) },
		func() error { return of(r.ListContainers(ctx, nil)) },
		func() error {
			return r.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{ContainerId: "c"})
		},
		func() error { return r.ReopenContainerLog(ctx, "c") },
		func() error {
			return r.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{ContainerId: "c"})
		},
		func() error { _, _, err := r.ExecSync(ctx, "c", []string{"x"}, 1); return err },
		func() error { return of(r.Exec(ctx, &runtimeapi.ExecRequest{ContainerId: "c"})) },
		func() error { return of(r.Attach(ctx, &runtimeapi.AttachRequest{ContainerId: "c"})) },
		func() error { return of(r.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: "s"})) },
		func() error { return of(r.ContainerStats(ctx, "c")) },
		func() error { return of(r.ListContainerStats(ctx, nil)) },
		func() error { return of(r.PodSandboxStats(ctx, "s")) },
		func() error { return of(r.ListPodSandboxStats(ctx, nil)) },
		func() error { return of(r.ListMetricDescriptors(ctx)) },
		func() error { return of(r.ListPodSandboxMetrics(ctx)) },
		func() error { return r.GetContainerEvents(ctx, func(*runtimeapi.ContainerEventResponse) {}) },
		func() error { return of(i.ListImages(ctx, nil)) },
		func() error { return of(i.ImageStatus(ctx, image, true)) },
		func() error { return of(i.ImageFsInfo(ctx)) },
		func() error { return of(i.PullImage(ctx, image, nil, nil)) },
		func() error { return i.RemoveImage(ctx, image) },
	}
}
