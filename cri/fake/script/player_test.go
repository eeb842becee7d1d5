package script_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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

// Every method of both services is played, and passes its reply through.
func TestEveryCall(t *testing.T) {
	var seen []string
	cfg := script.Config{Observe: func(c script.Call) { seen = append(seen, c.Name) }}
	playOn(t, "every call: Unavailable \"all\"", fake.Config{}, cfg, func(s *stage) {
		for name, err := range everyCall(s.t.Context(), s.Player) {
			require.Equal(t, "all", status.Convert(err).Message(), name)
		}
	})
	require.ElementsMatch(t, script.Calls(), seen)
	playOn(t, "", fake.Config{AnyImage: true}, script.Config{}, func(s *stage) {
		direct := everyCall(s.t.Context(), s.fake)
		for name, err := range everyCall(s.t.Context(), s.Player) {
			require.Equal(t, status.Convert(direct[name]).Message(), status.Convert(err).Message(), name)
		}
	})
}

// everyCall makes each call, about nothing, and returns the errors. The stream of
// events ends with the context.
func everyCall(ctx context.Context, on any) map[string]error {
	ended, end := context.WithTimeout(ctx, time.Second)
	defer end()
	errs := map[string]error{}
	for _, service := range []reflect.Type{reflect.TypeFor[cri.RuntimeService](), reflect.TypeFor[cri.ImageService]()} {
		for i := range service.NumMethod() {
			name := service.Method(i).Name
			method := reflect.ValueOf(on).MethodByName(name)
			args := []reflect.Value{reflect.ValueOf(ended)}
			for i := 1; i < method.Type().NumIn(); i++ {
				arg := reflect.Zero(method.Type().In(i))
				if arg.Kind() == reflect.Pointer {
					arg = reflect.New(arg.Type().Elem())
				}
				args = append(args, arg)
			}
			out := method.Call(args)
			errs[name], _ = out[len(out)-1].Interface().(error)
		}
	}
	return errs
}
