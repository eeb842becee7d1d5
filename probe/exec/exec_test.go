package exec

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/probe"
)

type runtime func(ctx context.Context, id string, command []string, timeout time.Duration) (stdout, stderr []byte, err error)

func (r runtime) ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	return r(ctx, id, command, timeout)
}

// outputs returns a runtime whose command writes output and ends.
func outputs(stdout, stderr string, err error) runtime {
	return func(context.Context, string, []string, time.Duration) ([]byte, []byte, error) {
		return []byte(stdout), []byte(stderr), err
	}
}

// killed is a runtime whose command exceeds the timeout.
func killed(_ context.Context, _ string, _ []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	time.Sleep(timeout)
	return nil, nil, fmt.Errorf("killed: %w", context.DeadlineExceeded)
}

// hangs is a runtime that does not respond.
func hangs(ctx context.Context, _ string, _ []string, _ time.Duration) (stdout, stderr []byte, err error) {
	<-ctx.Done()
	return nil, nil, fmt.Errorf("call: %w", ctx.Err())
}

type exitError int

func (e exitError) Error() string { return "failed" }
func (e exitError) ExitCode() int { return int(e) }

func target(command ...string) probe.Target {
	return probe.Target{
		ContainerID: "containerd://abc", Timeout: time.Second, Container: &v1.Container{},
		Probe: &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: command}}},
	}
}

func newProber(t *testing.T, cfg Config) *Prober {
	t.Helper()
	p, err := New(cfg)
	require.NoError(t, err)
	return p
}

func TestNew(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "Config.Runtime")
	_, err = New(Config{Runtime: outputs("", "", nil), Grace: -1})
	require.ErrorContains(t, err, "Config.Grace")
}

// T46: exit codes and timeouts are verdicts, everything else is an error.
func TestVerdicts(t *testing.T) {
	gone := errors.New("runtime gone")
	for name, tc := range map[string]struct {
		runtime runtime
		want    probe.Result
		err     error
	}{
		"success":        {outputs("out", "err", nil), probe.Result{Verdict: probe.Success, Output: "outerr"}, nil},
		"exit code 3":    {outputs("out", "err", fmt.Errorf("exec: %w", exitError(3))), probe.Result{Verdict: probe.Failure, Output: "outerr"}, nil},
		"exit code 137":  {outputs("", "", exitError(137)), probe.Result{Verdict: probe.Failure, Output: "exit code 137"}, nil},
		"out of time":    {killed, probe.Result{Verdict: probe.Failure, Output: `command timed out: "x" timed out after 1s`}, nil},
		"too busy":       {outputs("", "", fmt.Errorf("no reply: %w", context.DeadlineExceeded)), probe.Result{}, context.DeadlineExceeded},
		"cancelled":      {outputs("", "", context.Canceled), probe.Result{}, context.Canceled},
		"runtime gone":   {outputs("out", "", gone), probe.Result{}, gone},
		"no text at all": {outputs("\xff\xfe\x00a", "\x80", nil), probe.Result{Verdict: probe.Success, Output: "?\x00a?"}, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			got, err := newProber(t, Config{Runtime: tc.runtime}).Probe(t.Context(), target("x"))
			require.ErrorIs(t, err, tc.err, name)
			require.Equal(t, tc.want, got, name)
		})
	}
}

// The runtime receives the ID of the container, and the timeout in whole seconds.
func TestCall(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		0: time.Second, -1: time.Second, time.Millisecond: time.Second, time.Second: time.Second,
		1500 * time.Millisecond: 2 * time.Second, time.Minute: time.Minute,
	} {
		called := false
		p := newProber(t, Config{Grace: time.Hour, Runtime: runtime(func(ctx context.Context, id string, command []string, timeout time.Duration) ([]byte, []byte, error) {
			called = true
			require.Equal(t, "abc", id)
			require.Equal(t, []string{"ls", "-l"}, command)
			require.Equal(t, want, timeout)
			deadline, ok := ctx.Deadline()
			require.True(t, ok)
			require.WithinDuration(t, time.Now().Add(2*timeout+3*time.Hour), deadline, 10*time.Minute)
			return nil, nil, nil
		})})
		target := target("ls", "-l")
		target.Timeout = timeout
		_, err := p.Probe(t.Context(), target)
		require.NoError(t, err)
		require.True(t, called)
	}
}

func TestErrors(t *testing.T) {
	p := newProber(t, Config{Runtime: outputs("", "", nil)})
	for want, change := range map[string]func(*probe.Target){
		"no exec handler":                        func(t *probe.Target) { t.Probe.Exec = nil },
		`container ID "" is not <runtime>`:       func(t *probe.Target) { t.ContainerID = "" },
		`container ID "abc" is not <runtime>`:    func(t *probe.Target) { t.ContainerID = "abc" },
		`container ID "docker://" is not <runti`: func(t *probe.Target) { t.ContainerID = "docker://" },
	} {
		target := target("x")
		change(&target)
		got, err := p.Probe(t.Context(), target)
		require.ErrorContains(t, err, want)
		require.Zero(t, got)
	}
}

// The runtime may exceed the caller's deadline by Grace, to kill the command and to respond.
func TestOutlastsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, Config{Runtime: runtime(func(ctx context.Context, _ string, _ []string, timeout time.Duration) ([]byte, []byte, error) {
			select {
			case <-time.After(timeout + 300*time.Millisecond):
				return []byte("partly"), nil, fmt.Errorf("killed: %w", context.DeadlineExceeded)
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			}
		})})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got, err := p.Probe(ctx, target("x"))
		require.NoError(t, err)
		require.Equal(t, probe.Result{Verdict: probe.Failure, Output: `command timed out: "x" timed out after 1s: partly`}, got)
	})
}

// lingers returns a runtime that rejects nonexistent commands after a while, and otherwise does
// not respond.
func lingers(refuses time.Duration) runtime {
	return func(ctx context.Context, id string, command []string, timeout time.Duration) (stdout, stderr []byte, err error) {
		if command[0] != noSuchCommand {
			return hangs(ctx, id, command, timeout)
		}
		if !run.Sleep(ctx, refuses) {
			return nil, nil, ctx.Err()
		}
		return nil, nil, errors.New("no such file")
	}
}

// late returns a runtime that starts to process calls some time after the start of the test.
func late(after time.Duration, then runtime) runtime {
	begin := time.Now()
	return func(ctx context.Context, id string, command []string, timeout time.Duration) (stdout, stderr []byte, err error) {
		if !run.Sleep(ctx, time.Until(begin.Add(after))) {
			return nil, nil, ctx.Err()
		}
		if command[0] == noSuchCommand {
			return nil, nil, errors.New("no such file")
		}
		return then(ctx, id, command, timeout)
	}
}

// If the runtime does not respond, the container fails only if the runtime executes other
// commands.
func TestSilentRuntime(t *testing.T) {
	down := errors.New("down")
	responds := func(context.Context) error { return nil }
	for name, tc := range map[string]struct {
		runtime func() runtime
		alive   func(context.Context) error
		want    probe.Verdict
		took    time.Duration
		err     error
	}{
		"without a check": {func() runtime { return hangs }, nil, probe.Unknown, 3 * time.Second, nil},
		"works":           {func() runtime { return lingers(0) }, responds, probe.Failure, 4 * time.Second, nil},
		"works slowly":    {func() runtime { return lingers(time.Second) }, responds, probe.Failure, 5 * time.Second, nil},
		"runs nothing":    {func() runtime { return hangs }, responds, probe.Unknown, 5 * time.Second, context.DeadlineExceeded},
		"fails early": {func() runtime {
			return func(ctx context.Context, id string, command []string, timeout time.Duration) (stdout, stderr []byte, err error) {
				if command[0] == noSuchCommand {
					return killed(ctx, id, command, timeout)
				}
				return hangs(ctx, id, command, timeout)
			}
		}, responds, probe.Unknown, 4 * time.Second, context.DeadlineExceeded},
		"was busy, and the command succeeds": {func() runtime { return late(4*time.Second, outputs("ok", "", nil)) }, responds, probe.Success, 4 * time.Second, nil},
		"was busy, and the command fails":    {func() runtime { return late(4*time.Second, outputs("", "", exitError(1))) }, responds, probe.Failure, 4 * time.Second, nil},
		"was busy, and the command hangs":    {func() runtime { return late(4*time.Second, killed) }, responds, probe.Failure, 5 * time.Second, nil},
		"is down":                            {func() runtime { return lingers(0) }, func(context.Context) error { return down }, probe.Unknown, 3 * time.Second, down},
		"hangs": {func() runtime { return lingers(0) }, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}, probe.Unknown, 4 * time.Second, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				got, err := newProber(t, Config{Runtime: tc.runtime(), Alive: tc.alive}).Probe(t.Context(), target("x"))
				require.Equal(t, tc.took, time.Since(begin))
				require.Equal(t, tc.want, got.Verdict)
				require.Equal(t, tc.want == probe.Unknown, err != nil, err)
				if tc.err != nil {
					require.ErrorIs(t, err, tc.err)
				}
			})
		})
	}
}

// A cancelled probe returns at once, before or within the call.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		alive := func(context.Context) error {
			t.Error("no call of the runtime continues")
			return nil
		}
		p := newProber(t, Config{Alive: alive, Runtime: runtime(func(ctx context.Context, id string, command []string, timeout time.Duration) ([]byte, []byte, error) {
			calls++
			return hangs(ctx, id, command, timeout)
		})})
		why := errors.New("the pod was removed")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(why) })
		begin := time.Now()
		_, err := p.Probe(ctx, target("x"))
		require.ErrorIs(t, err, why)
		require.Equal(t, 100*time.Millisecond, time.Since(begin))
		require.Equal(t, 1, calls)
		_, err = p.Probe(ctx, target("x"))
		require.ErrorIs(t, err, why)
		require.Equal(t, 100*time.Millisecond, time.Since(begin))
		require.Equal(t, 1, calls, "no command starts")
	})
}

// The output is truncated to 10 KiB: standard output first.
func TestOutput(t *testing.T) {
	long := strings.Repeat("o", maxOutput)
	for _, tc := range []struct{ stdout, stderr, want string }{
		{long + "x", "e", long},
		{long[1:], "ee", long[1:] + "e"},
		{"o", long, "o" + strings.Repeat("o", maxOutput-1)},
		{strings.Repeat("ä", maxOutput), "", strings.Repeat("ä", maxOutput/2)},
		{"a" + strings.Repeat("ä", maxOutput), "", "a" + strings.Repeat("ä", maxOutput/2-1) + "?"},
	} {
		got, err := newProber(t, Config{Runtime: outputs(tc.stdout, tc.stderr, nil)}).Probe(t.Context(), target("x"))
		require.NoError(t, err)
		require.Equal(t, tc.want, got.Output)
		require.LessOrEqual(t, len(got.Output), maxOutput)
		got, err = newProber(t, Config{Runtime: outputs(tc.stdout, tc.stderr, exitError(1))}).Probe(t.Context(), target("x"))
		require.NoError(t, err)
		require.Equal(t, tc.want, got.Output)
		require.True(t, utf8.ValidString(got.Output))
	}
}

// Only literal values of the spec are expanded.
func TestExpand(t *testing.T) {
	container := &v1.Container{
		Env: []v1.EnvVar{
			{Name: "A", Value: "x"},
			{Name: "EMPTY"},
			{Name: "NEST", Value: "$(A)/$(LATER)/$(SERVICE_HOST)/$$(A)"},
			{Name: "LATER", Value: "y"},
			{Name: "FIELD", Value: "", ValueFrom: &v1.EnvVarSource{}},
			{Name: "TWICE", Value: "1"},
			{Name: "TWICE", Value: "2"},
			{Name: "HIDDEN", Value: "1"},
			{Name: "HIDDEN", ValueFrom: &v1.EnvVarSource{}},
		},
		EnvFrom: []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{}}},
	}
	for in, want := range map[string]string{
		"plain": "plain", "$(A)$(EMPTY)$(A)": "xx", "$(NEST)": "x/$(LATER)/$(SERVICE_HOST)/$(A)",
		"$(FIELD)": "$(FIELD)", "$(HIDDEN)": "$(HIDDEN)", "$(TWICE)": "2", "$(UNKNOWN)": "$(UNKNOWN)",
		"$$(A)": "$(A)", "$A": "$A", "$(A": "$(A", "": "",
	} {
		got, err := expand(container, []string{in})
		require.NoError(t, err)
		require.Equal(t, []string{want}, got, in)
	}
	command := []string{"sh", "-c", "echo $(A)"}
	got, err := expand(container, command)
	require.NoError(t, err)
	require.Equal(t, []string{"sh", "-c", "echo x"}, got)
	require.Equal(t, "echo $(A)", command[2], "the spec is shared")
}

// A few hundred bytes of variables do not expand to gigabytes.
func TestExpandIsBounded(t *testing.T) {
	container := &v1.Container{Env: []v1.EnvVar{{Name: "E0", Value: strings.Repeat("x", 1000)}}}
	for i := range 11 {
		container.Env = append(container.Env, v1.EnvVar{Name: fmt.Sprintf("E%d", i+1), Value: strings.Repeat(fmt.Sprintf("$(E%d)", i), 10)})
	}
	_, err := expand(container, []string{"x"})
	require.ErrorContains(t, err, "exec.command")
	container.Env = container.Env[:2]
	_, err = expand(container, []string{strings.Repeat("$(E1)", 14)})
	require.ErrorContains(t, err, "exec.command")
}
