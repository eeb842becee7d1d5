package writer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/statustest"
	"github.com/podwright/podwright/status/writer"
)

// The end of Run cancels calls in progress and waits for them up to the limit, even if their pods
// are forgotten. The error lists the remaining calls.
func TestShutdownDuringACall(t *testing.T) {
	hangs := func(<-chan struct{}) statustest.Fault { return statustest.Fault{Hang: true} }
	ignoring := func(release <-chan struct{}) statustest.Fault { return statustest.Fault{Deaf: release} }
	for name, c := range map[string]struct {
		fault     func(<-chan struct{}) statustest.Fault
		after     time.Duration // time until the end of Run
		forgotten bool
		released  time.Duration // further duration of the call
		took      time.Duration
		err       string
	}{
		"the call ends with its context":     {fault: hangs, after: time.Second},
		"the call ends in time":              {fault: ignoring, after: time.Second, released: 9 * time.Second, took: 9 * time.Second},
		"the call exceeds its deadline":      {fault: ignoring, after: time.Minute, released: 2 * time.Second, took: 2 * time.Second},
		"the pod is forgotten":               {fault: ignoring, after: time.Minute, forgotten: true, released: 2 * time.Second, took: 2 * time.Second},
		"the call hangs":                     {fault: ignoring, after: time.Second, released: time.Hour, took: 10 * time.Second, err: "patch of pod ns/a(uid-a) since 2000-01-01T00:00:00Z, patch of pod ns/b(uid-b) since 2000-01-01T00:00:00Z"},
		"the call hangs after its deadline":  {fault: ignoring, after: time.Minute, released: time.Hour, took: 10 * time.Second, err: "patch of pod ns/a(uid-a) since 2000-01-01T00:00:00Z, patch of pod ns/b(uid-b) since 2000-01-01T00:00:00Z"},
		"the call hangs for a forgotten pod": {fault: ignoring, after: time.Minute, forgotten: true, released: time.Hour, took: 10 * time.Second, err: "patch of pod ns/a(uid-a)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink, release := statustest.NewSink(), make(chan struct{})
				w := newWriter(t, writer.Config{Sinks: sinks(sink)})
				sink.Fail(func(call statustest.Call) statustest.Fault {
					if call.Op == statustest.Patch {
						return c.fault(release)
					}
					return statustest.Fault{}
				})
				stop := start(t, w)
				for _, pod := range []*v1.Pod{sink.Put(newPod("a")), sink.Put(newPod("b"))} {
					require.NoError(t, w.Set(pod, running(pod, true)))
				}
				time.Sleep(c.after)
				if c.forgotten {
					w.Forget("uid-a")
					w.Forget("uid-b")
				}
				synctest.Wait()
				begin := time.Now()
				time.AfterFunc(c.released, func() { close(release) })
				err := stop()
				require.Equal(t, c.took, time.Since(begin))
				if c.err == "" {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, writer.ErrShutdownTimeout)
					require.ErrorContains(t, err, c.err)
				}
				<-release
				synctest.Wait()
			})
		})
	}
}

// At the end of Run, a Receiver gets its missing statuses, each once, within half of the limit.
func TestReceiverGetsLastStatuses(t *testing.T) {
	for name, c := range map[string]struct {
		last func(context.Context) error // the call after the end
		took time.Duration
	}{
		"failure": {last: func(context.Context) error { return errors.New("full") }},
		"hang":    {last: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, took: 5 * time.Second},
		"success": {last: func(context.Context) error { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				receive, calls := func(context.Context) error { return errors.New("full") }, 0
				w := newWriter(t, writer.Config{Sinks: sinks(status.SinkFunc(func(ctx context.Context, _ *v1.Pod, _ *v1.PodStatus) error {
					calls++
					return receive(ctx)
				}))})
				stop, pod := start(t, w), newPod("a")
				require.NoError(t, w.Set(pod, running(pod, true)))
				time.Sleep(time.Minute + time.Second)
				synctest.Wait()
				require.Greater(t, calls, 6)
				receive, calls = c.last, 0
				begin := time.Now()
				require.NoError(t, stop())
				require.Equal(t, c.took, time.Since(begin))
				require.Equal(t, 1, calls)
			})
		})
	}
}
