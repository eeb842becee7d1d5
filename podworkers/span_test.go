package podworkers_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
)

type spanKey struct{}

// Each call has the context of its span, which ends with the call's error, also when the syncer
// does not return.
func TestSpans(t *testing.T) {
	var mu sync.Mutex
	var got []string
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf(format, args...))
	}
	begin := func(ctx context.Context, name string, attributes ...slog.Attr) (context.Context, func(error)) {
		say("%s %v", name, attributes)
		return context.WithValue(ctx, spanKey{}, name), func(err error) { say("%s: %v", name, err) }
	}
	inBubble(t, podworkers.Config{Span: begin}, func(b *bubble) {
		inside := func(err error) func(context.Context, podworkers.Work) (bool, error) {
			return func(ctx context.Context, _ podworkers.Work) (bool, error) {
				say("in %v", ctx.Value(spanKey{}))
				podworkers.SetStep(ctx, "a step")
				require.Equal(b, "a step", b.State("a").Step)
				return false, err
			}
		}
		b.rec.On("a", syncPod, inside(errBoom))
		b.rec.On("a", terminating, inside(nil))
		b.rec.On("a", podworkers.CallSyncTerminatedPod, inside(nil))
		b.send(create, "a")
		b.send(kill, "a")
		b.is("a", podworkers.StateFinished)
		pod := func(uid types.UID) string {
			return fmt.Sprintf("k8s.pod.uid=%[1]s k8s.pod=default/%[1]s k8s.pod.name=%[1]s k8s.namespace.name=default", uid)
		}
		require.Equal(b, []string{
			"syncPod [" + pod("a") + " k8s.pod.update_type=create]", "in syncPod", "syncPod: boom",
			"syncTerminatingPod [" + pod("a") + "]", "in syncTerminatingPod", "syncTerminatingPod: <nil>",
			"syncTerminatedPod [" + pod("a") + "]", "in syncTerminatedPod", "syncTerminatedPod: <nil>",
		}, got)

		got = nil
		b.update(podworkers.Update{Type: kill, RuntimePod: &podworkers.RuntimePod{UID: "o", Name: "o", Namespace: "default"}})
		require.Equal(b, "syncTerminatingOrphan ["+pod("o")+"]", got[0])
		got = nil
		b.rec.On("exits", syncPod, exit)
		b.send(create, "exits")
		require.Equal(b, "syncPod: "+b.State("exits").LastError.Error(), got[len(got)-1])
	})
}
