package agent

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/fake"
)

// A clock of the runtime or of the API server that is an hour off does not affect pods: they start,
// crash, restart, and end after their grace period.
func TestClockSkew(t *testing.T) {
	const off = time.Hour
	for _, ahead := range []struct{ runtime, api time.Duration }{{0, 0}, {off, 0}, {-off, 0}, {0, off}, {0, -off}, {off, off}, {-off, -off}} {
		t.Run(fmt.Sprint("runtime ", ahead.runtime, ", API ", ahead.api), func(t *testing.T) { testClockSkew(t, ahead.runtime, ahead.api) })
	}
}

func testClockSkew(t *testing.T, runtime, api time.Duration) {
	programs := fake.ByContainer(map[string]fake.Program{"crashes": fake.Exit(1), "ignores": ignoreTERM}, fake.SleepUntilStopped)
	inClusterOf(t, fake.Config{ClockSkew: runtime, Programs: programs}, func(w *world) {
		w.startFor(3 * time.Second)
		there := func() metav1.Time { return metav1.NewTime(time.Now().Add(api)) }
		requireRunning := func(name, why string) { require.Equal(w.t, []uint32{0}, w.Running()[name], why) }
		requireRestarts := func(n int32, why string) {
			require.Equal(w.t, n, w.at("a").Status.ContainerStatuses[0].RestartCount, why)
		}
		deadline := bound("c", "late")
		deadline.Spec.ActiveDeadlineSeconds = new(int64(60))
		for _, p := range []*v1.Pod{bound("a", "stays", "crashes"), bound("b", "ignores"), deadline} {
			p.CreationTimestamp = there()
			w.put(p)
		}
		w.Sleep(30 * time.Second)
		requireRunning("stays", "")
		requireRunning("ignores", "")
		requireRunning("late", "its deadline has not passed")
		requireRestarts(2, "at once, and after ten seconds")
		w.Sleep(80 * time.Second)
		requireRestarts(4, "after twenty more, and forty")
		require.Contains(w.t, w.ended("c"), "Failed DeadlineExceeded: ")

		w.removeAt("b", there(), 20)
		w.Sleep(10 * time.Second)
		requireRunning("ignores", "its grace period has not passed")
		w.Sleep(15 * time.Second)
		require.Nil(w.t, w.at("b"))
		w.stop()
		w.startFor(10 * time.Second)
		requireRunning("stays", "another agent finds the same state")
		w.removeAt("a", there(), 2)
		w.removeAt("c", there(), 2)
		w.Sleep(10 * time.Second)
		w.requireNothingLeft()
	})
}

// ignoreTERM is a program that ends only at SIGKILL.
func ignoreTERM(ctx context.Context, p *fake.Process) int {
	p.Signals()
	<-ctx.Done()
	return 137
}

func after(d time.Duration, code int) fake.Program {
	return func(ctx context.Context, _ *fake.Process) int {
		select {
		case <-time.After(d):
			return code
		case <-ctx.Done():
			return 143
		}
	}
}
