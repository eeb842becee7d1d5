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

// However a call is going on when Run ends: it is asked to end, and waited for until the
// limit, also when its turn was given up and its pod forgotten.
func TestShutdownDuringACall(t *testing.T) {
	hangs := func(<-chan struct{}) statustest.Fault { return statustest.Fault{Hang: true} }
	deaf := func(release <-chan struct{}) statustest.Fault { return statustest.Fault{Deaf: release} }
	for name, c := range map[string]struct {
		fault     func(<-chan struct{}) statustest.Fault
		after     time.Duration // when Run is to end
		forgotten bool
		released  time.Duration // how long the call goes on then
		took      time.Duration
		err       string
	}{
		"it heeds its context":   {fault: hangs, after: time.Second},
		"it ends in time":        {fault: deaf, after: time.Second, released: 9 * time.Second, took: 9 * time.Second},
		"it was given up":        {fault: deaf, after: time.Minute, released: 2 * time.Second, took: 2 * time.Second},
		"its pod was forgotten":  {fault: deaf, after: time.Minute, forgotten: true, released: 2 * time.Second, took: 2 * time.Second},
		"it goes on and on":      {fault: deaf, after: time.Second, released: time.Hour, took: 10 * time.Second, err: "patch of pod ns/a(uid-a) (for 11s)"},
		"so it does, given up":   {fault: deaf, after: time.Minute, released: time.Hour, took: 10 * time.Second, err: "patch of pod ns/a(uid-a) (for 1m10s)"},
		"so it does, for nobody": {fault: deaf, after: time.Minute, forgotten: true, released: time.Hour, took: 10 * time.Second, err: "patch of pod ns/a(uid-a)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink, release := statustest.NewSink(), make(chan struct{})
				w, err := writer.New(writer.Config{Sinks: sinks(sink)})
				require.NoError(t, err)
				sink.Fail(func(call statustest.Call) statustest.Fault {
					if call.Op == statustest.Patch {
						return c.fault(release)
					}
					return statustest.Fault{}
				})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- w.Run(ctx) }()
				pod := sink.Put(newPod("a"))
				require.NoError(t, w.Set(pod, running(pod, true)))
				time.Sleep(c.after)
				if c.forgotten {
					w.Forget(pod.UID)
				}
				synctest.Wait()
				begun := time.Now()
				time.AfterFunc(c.released, func() { close(release) })
				cancel()
				err = <-done
				require.Equal(t, c.took, time.Since(begun))
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

// A Receiver has half of the limit for the last.
func TestReceiverHasHalfTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w, err := writer.New(writer.Config{Sinks: sinks(status.SinkFunc(func(call context.Context, _ *v1.Pod, _ *v1.PodStatus) error {
			if ctx.Err() == nil {
				return errors.New("full") // so it is left for the last
			}
			<-call.Done()
			return call.Err()
		}))})
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		pod := newPod("a")
		require.NoError(t, w.Set(pod, running(pod, true)))
		synctest.Wait()
		begun := time.Now()
		cancel()
		require.NoError(t, <-done)
		require.Equal(t, 5*time.Second, time.Since(begun))
	})
}
