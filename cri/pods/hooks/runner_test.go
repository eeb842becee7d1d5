package hooks

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// execFunc implements ExecSync.
type execFunc func(ctx context.Context, id string, command []string, timeout time.Duration) ([]byte, []byte, error)

func (f execFunc) ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) ([]byte, []byte, error) {
	return f(ctx, id, command, timeout)
}

func noExec(context.Context, string, []string, time.Duration) ([]byte, []byte, error) {
	panic("no command expected")
}

var (
	testPod       = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "0d1e", ResourceVersion: "7"}}
	testContainer = &v1.Container{Name: "app", Ports: []v1.ContainerPort{{Name: "admin", ContainerPort: 8081}}}
)

func newRunner(t *testing.T, cfg Config) *Runner {
	t.Helper()
	if cfg.Exec == nil {
		cfg.Exec = execFunc(noExec)
	}
	r, err := New(cfg)
	require.NoError(t, err)
	return r
}

func TestNewChecks(t *testing.T) {
	_, err := New(Config{})
	require.EqualError(t, err, "hooks: Config.Exec is required")
}

func TestExec(t *testing.T) {
	for name, tc := range map[string]struct {
		stdout, stderr string
		err            error
		want           string
	}{
		"ok":         {stdout: "out", stderr: "err", want: "outerr"},
		"fails":      {stdout: "partly ", stderr: "secret", err: &cri.ExitError{Code: 3}, want: "partly secret"},
		"too much":   {stdout: strings.Repeat("a", maxOutput-1), stderr: "bc", want: strings.Repeat("a", maxOutput-1) + "b"},
		"far beyond": {stdout: strings.Repeat("a", maxOutput+5), stderr: "b", want: strings.Repeat("a", maxOutput)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRunner(t, Config{Exec: execFunc(func(ctx context.Context, id string, command []string, timeout time.Duration) ([]byte, []byte, error) {
				require.Equal(t, "abc", id)
				require.Equal(t, []string{"sh", "-c", "x"}, command)
				require.Zero(t, timeout, "ctx is the only bound")
				return []byte(tc.stdout), []byte(tc.stderr), tc.err
			})})
			output, err := r.Run(t.Context(), testPod, testContainer, "abc", &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", "x"}}})
			require.Equal(t, tc.want, output)
			if tc.err == nil {
				require.NoError(t, err)
				return
			}
			var exit *cri.ExitError
			require.ErrorAs(t, err, &exit)
			require.EqualError(t, err, "exec handler of container app: command exited with code 3")
		})
	}
}

// If the context is done, the error contains its cause, regardless of the runtime's error.
func TestExecEndsWithContext(t *testing.T) {
	over := errors.New("grace period is over")
	r := newRunner(t, Config{Exec: execFunc(func(ctx context.Context, _ string, _ []string, _ time.Duration) ([]byte, []byte, error) {
		<-ctx.Done()
		return nil, nil, errors.New("cut off")
	})})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, over)
		defer cancel()
		begin := time.Now()
		_, err := r.Run(ctx, testPod, testContainer, "abc", &v1.LifecycleHandler{Exec: &v1.ExecAction{}})
		require.ErrorIs(t, err, over)
		require.ErrorContains(t, err, "cut off")
		require.Equal(t, 5*time.Second, time.Since(begin))
		_, err = r.Run(ctx, testPod, testContainer, "abc", &v1.LifecycleHandler{Exec: &v1.ExecAction{}})
		require.ErrorIs(t, err, over, "no handler starts after the end")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestSleep(t *testing.T) {
	for _, tc := range []struct {
		name    string
		seconds int64
		bound   time.Duration
		took    time.Duration
		ends    bool
	}{
		{"its time", 3, time.Minute, 3 * time.Second, false},
		{"no time", 0, time.Minute, 0, false},
		{"cut short", 60, 10 * time.Second, 10 * time.Second, true},
		{"more than a duration holds", 1 << 62, time.Minute, time.Minute, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				early := 0
				r := newRunner(t, Config{Metrics: Metrics{OnSleepTerminatedEarly: func() { early++ }}})
				ctx, cancel := context.WithTimeout(t.Context(), tc.bound)
				defer cancel()
				begin := time.Now()
				_, err := r.Run(ctx, testPod, testContainer, "abc", &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: tc.seconds}})
				require.Equal(t, tc.took, time.Since(begin))
				require.Equal(t, tc.ends, errors.Is(err, context.DeadlineExceeded))
				require.Equal(t, tc.ends, err != nil)
				require.Equal(t, tc.ends, early == 1)
			})
		})
	}
}

// Unsupported handlers are refused with their kind and do not run.
func TestRefused(t *testing.T) {
	r := newRunner(t, Config{})
	for want, handler := range map[string]*v1.LifecycleHandler{
		"nil handler":                                     nil,
		"exec, httpGet or sleep is required":              {},
		"the API accepts tcpSocket, but":                  {TCPSocket: &v1.TCPSocketAction{}},
		"sleep.seconds is negative: -1":                   {Sleep: &v1.SleepAction{Seconds: -1}},
		"tcpSocket handler of container app: unsupported": {TCPSocket: &v1.TCPSocketAction{}},
	} {
		_, err := r.Run(t.Context(), testPod, testContainer, "abc", handler)
		require.ErrorIs(t, err, ErrUnsupported)
		require.ErrorContains(t, err, want)
	}
}
