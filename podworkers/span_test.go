package podworkers

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

type spanKey struct{}

// Each call is made with the context of its span, which ends with the call's error, also when
// the syncer does not return.
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
	inBubble(t, Config{Span: begin}, func(b *bubble) {
		b.rec.do = func(ctx context.Context, c recorded) (bool, error) {
			say("in %v", ctx.Value(spanKey{}))
			SetStep(ctx, "a step")
			require.Equal(b, "a step", b.State(c.uid).Step)
			if c.uid == "exits" && c.n == 1 {
				runtime.Goexit()
			}
			if c.kind == syncPod {
				return false, errBoom
			}
			return false, nil
		}
		b.send(create(podOf("a")), kill(podOf("a")))
		b.is("a", StateFinished)
		pod := "k8s.pod.uid=a k8s.pod=ns/pod-a k8s.pod.name=pod-a k8s.namespace.name=ns"
		require.Equal(b, []string{
			"syncPod [" + pod + " k8s.pod.update_type=create]", "in syncPod", "syncPod: boom",
			"syncTerminatingPod [" + pod + "]", "in syncTerminatingPod", "syncTerminatingPod: <nil>",
			"syncTerminatedPod [" + pod + "]", "in syncTerminatedPod", "syncTerminatedPod: <nil>",
		}, got)

		got = nil
		b.send(orphan("o"))
		require.Equal(b, "syncTerminatingOrphan [k8s.pod.uid=o k8s.pod=ns/pod-o k8s.pod.name=pod-o k8s.namespace.name=ns]", got[0])
		got = nil
		b.send(create(podOf("exits")))
		require.Equal(b, "syncPod: "+errGoexit.Error(), got[len(got)-1])
	})
}
