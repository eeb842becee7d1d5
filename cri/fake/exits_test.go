package fake_test

import (
	"context"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

// The status of a container follows from the end of its program.
func TestExits(t *testing.T) {
	for _, c := range []struct {
		name    string
		program fake.Program
		signal  syscall.Signal // before the stop
		grace   time.Duration
		took    time.Duration
		want    string
		message string
	}{
		{name: "zero", program: fake.Exit(0), want: "EXITED 0 Completed"},
		{name: "code", program: fake.Exit(42), want: "EXITED 42 Error"},
		{name: "only eight bits count", program: fake.Exit(256 + 7), want: "EXITED 7 Error"},
		{name: "negative", program: fake.Exit(-1), want: "EXITED 255 Error"},
		{name: "a signal of its own", program: fake.KilledBy(syscall.SIGSEGV), want: "EXITED 139 Error"},
		{name: "panic", program: func(context.Context, *fake.Process) int { panic("no") }, want: "EXITED 2 Error"},
		{name: "goexit", program: func(context.Context, *fake.Process) int { runtime.Goexit(); return 0 }, want: "EXITED 2 Error"},
		{name: "out of memory", program: fake.OutOfMemory, want: "EXITED 137 OOMKilled"},
		{name: "C11 out of memory with exit code 0", want: "EXITED 0 OOMKilled", program: func(_ context.Context, p *fake.Process) int {
			p.OOMKilled()
			return 0
		}},
		{name: "explained", want: "EXITED 126 ContainerCannotRun", message: "no room", program: func(_ context.Context, p *fake.Process) int {
			p.Explain("ContainerCannotRun", "no room")
			return 126
		}},
		{name: "only a message", want: "EXITED 1 Error", message: "see the manual", program: func(_ context.Context, p *fake.Process) int {
			p.Explain("", "see the manual")
			return 1
		}},
		{name: "unhandled SIGTERM", program: fake.SleepUntilStopped, grace: 30 * time.Second, want: "EXITED 143 Error"},
		{name: "no grace", program: fake.SleepUntilStopped, want: "EXITED 137 Error"},
		{name: "ignored SIGTERM", program: stubborn, grace: 30 * time.Second, took: 30 * time.Second, want: "EXITED 137 Error"},
		{name: "handled SIGTERM", grace: 30 * time.Second, took: 3 * time.Second, want: "EXITED 7 Error", program: func(_ context.Context, p *fake.Process) int {
			<-p.Signals()
			time.Sleep(3 * time.Second)
			return 7
		}},
		{name: "grace is rounded up to seconds", program: stubborn, grace: time.Millisecond, took: time.Second, want: "EXITED 137 Error"},
		{name: "a negative grace period counts as 0", program: stubborn, grace: -time.Hour, want: "EXITED 137 Error"},
		{name: "abandoned after SIGKILL", grace: 2 * time.Second, took: 12 * time.Second, want: "EXITED 137 Error", program: func(context.Context, *fake.Process) int {
			time.Sleep(13 * time.Second)
			return 0
		}},
		{name: "SIGHUP from outside", program: fake.SleepUntilStopped, signal: 1, grace: time.Second, want: "EXITED 129 Error"},
		{name: "SIGINT from outside", program: fake.SleepUntilStopped, signal: 2, grace: time.Second, want: "EXITED 130 Error"},
		{name: "SIGKILL from outside", program: stubborn, signal: 9, grace: time.Second, want: "EXITED 137 Error"},
		{name: "SIGSEGV from outside", program: fake.SleepUntilStopped, signal: 11, grace: time.Second, want: "EXITED 139 Error"},
		{name: "SIGCHLD does nothing", program: fake.SleepUntilStopped, signal: 17, grace: time.Second, want: "EXITED 143 Error"},
	} {
		bubble(t, c.name, func(t *testing.T) {
			rt := start(t, fake.Config{AnyImage: true, Programs: fake.Always(c.program)})
			_, id := running(t, rt)
			synctest.Wait()
			if c.signal != 0 {
				require.NoError(t, rt.Signal(id, c.signal))
				synctest.Wait()
			}
			began := time.Now()
			require.NoError(t, rt.StopContainer(t.Context(), id, c.grace))
			require.Equal(t, c.took, time.Since(began))
			s := statusOf(t, rt, id)
			require.Equal(t, c.want, brief(s))
			require.Equal(t, c.message, s.Message)
			time.Sleep(time.Minute) // the abandoned program returns
		})
	}
}

// Invalid signals and signal 0 do not reach the program.
func TestSignalsThatAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{AnyImage: true, Programs: fake.Always(func(_ context.Context, p *fake.Process) int {
			return int(<-p.Signals())
		})})
		_, id := running(t, rt)
		for _, signal := range []syscall.Signal{-1, 65, 1 << 20} {
			require.Equal(t, codes.InvalidArgument, status.Code(rt.Signal(id, signal)), signal)
		}
		require.NoError(t, rt.Signal(id, 0))
		synctest.Wait()
		require.Equal(t, runtimeapi.ContainerState_CONTAINER_RUNNING, statusOf(t, rt, id).State)
		require.NoError(t, rt.Signal(id, 64))
		synctest.Wait()
		require.Equal(t, codes.FailedPrecondition, status.Code(rt.Signal(id, 0)))
		require.EqualValues(t, 64, statusOf(t, rt, id).ExitCode)
	})
}

// A caller that leaves before the end of the grace period does not kill, also if the process was
// paused until both had passed.
func TestStopWhoseCallerLeaves(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			rt := start(t, fake.Config{AnyImage: true, Programs: fake.Always(stubborn)})
			_, id := running(t, rt)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			require.ErrorIs(t, rt.StopContainer(ctx, id, time.Second), context.DeadlineExceeded)
			synctest.Wait()
			require.Equal(t, "RUNNING 0 ", brief(statusOf(t, rt, id)))
		})
	}
}

func TestAbandonedProgramIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		rt, err := fake.New(fake.Config{
			AnyImage: true,
			Programs: fake.Always(func(context.Context, *fake.Process) int { <-release; return 0 }),
		})
		require.NoError(t, err)
		running(t, rt)
		began := time.Now()
		var abandoned *fake.AbandonedError
		require.ErrorAs(t, rt.Close(), &abandoned)
		require.Equal(t, 10*time.Second, time.Since(began))
		require.Equal(t, []string{"c_p_default_uid-p_0"}, abandoned.Programs)
		close(release)
		synctest.Wait()
		require.NoError(t, rt.Close(), "it has returned meanwhile")
	})
}
