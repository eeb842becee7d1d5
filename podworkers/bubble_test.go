package podworkers_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/podworkerstest"
)

const (
	create = podworkers.UpdateCreate
	update = podworkers.UpdateUpdate
	kill   = podworkers.UpdateKill

	syncPod     = podworkers.CallSyncPod
	terminating = podworkers.CallSyncTerminatingPod
)

var succeed podworkerstest.Outcome = podworkerstest.Succeed

// bubble is a running Workers with a recorder, in a synctest bubble.
type bubble struct {
	testing.TB
	*podworkers.Workers
	rec  *podworkerstest.Recorder
	log  lockedBuffer
	stop context.CancelFunc
}

// inBubble runs f with running workers, stops them afterwards and checks the trace against the
// rules of the lifecycle.
func inBubble(t *testing.T, cfg podworkers.Config, f func(b *bubble)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{TB: t, rec: podworkerstest.Record(&cfg)}
		cfg.Jitter = func() float64 { return 0 }
		cfg.Logger = slog.New(slog.NewTextHandler(&b.log, nil))
		var err error
		b.Workers, err = podworkers.New(cfg)
		require.NoError(t, err)
		var ctx context.Context
		ctx, b.stop = context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- b.Run(ctx) }()
		synctest.Wait()
		f(b)
		b.stop()
		require.NoError(t, <-ran)
		require.NoError(t, b.rec.Check(nil))
	})
}

func (b *bubble) send(typ podworkers.UpdateType, uids ...types.UID) {
	b.Helper()
	for _, uid := range uids {
		b.update(podworkers.Update{Type: typ, Pod: podOf(uid)})
	}
}

func (b *bubble) update(u podworkers.Update) {
	b.Helper()
	require.NoError(b, b.UpdatePod(u))
	synctest.Wait()
}

func (b *bubble) known(desired ...*v1.Pod) {
	b.SyncKnownPods(desired)
	synctest.Wait()
}

func (b *bubble) pass(d time.Duration) {
	time.Sleep(d) // the bubble's clock
	synctest.Wait()
}

func (b *bubble) is(uid types.UID, s podworkers.State) {
	b.Helper()
	require.Equal(b, s, b.State(uid).State)
}

func (b *bubble) called(uid types.UID, kinds ...podworkers.Call) {
	b.Helper()
	require.Equal(b, kinds, b.rec.Calls(uid))
}

// lockedBuffer is safe for concurrent use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
