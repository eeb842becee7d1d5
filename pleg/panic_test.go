package pleg_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/pleg/plegtest"
)

// panicking is a runtime whose calls run trouble, which panics or ends the goroutine.
type panicking struct {
	plegtest.EventedRuntime
	trouble atomic.Pointer[func()]
}

func (p *panicking) misbehave() {
	if f := p.trouble.Load(); f != nil {
		(*f)()
	}
}

func (p *panicking) ListPods(ctx context.Context) ([]observed.ListedPod, error) {
	p.misbehave()
	return p.EventedRuntime.ListPods(ctx)
}

func (p *panicking) PodStatus(ctx context.Context, uid types.UID) (*observed.Pod, error) {
	p.misbehave()
	return p.EventedRuntime.PodStatus(ctx, uid)
}

func (p *panicking) PodEvents(ctx context.Context, dirty func(types.UID)) error {
	p.misbehave()
	return p.EventedRuntime.PodEvents(ctx, dirty)
}

// A panic in the runtime is the error of that call and is logged with its stack. The PLEG
// recovers when the panics end.
func TestRuntimeThatPanics(t *testing.T) {
	for name, trouble := range map[string]func(){
		"panic":  func() { panic(errTest) },
		"goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
				var log strings.Builder
				rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
				p := &panicking{EventedRuntime: rt.WithEvents()}
				p.trouble.Store(&trouble)
				r := run(t, pleg.Config{Runtime: p, Logger: slog.New(slog.NewTextHandler(&log, nil))}, rt)
				require.False(t, r.Complete())
				h := r.Health()
				require.Equal(t, pleg.StreamClosed, h.Stream.State)
				_, err := r.Observe(t.Context(), "web", time.Now())
				_, cached := r.Get("web")
				for _, err := range []error{h.ListError, h.Stream.Err, err, cached} {
					require.Error(t, err)
					if name == "panic" {
						var panicked *pleg.PanicError
						require.ErrorAs(t, err, &panicked)
						require.ErrorIs(t, err, errTest)
						require.Contains(t, string(panicked.Stack), "misbehave")
					}
				}
				synctest.Wait()
				if name == "panic" {
					require.ErrorContains(t, h.ListError, "ListPods panicked: test")
					require.ErrorContains(t, err, "PodStatus of pod web panicked: test")
					require.ErrorContains(t, h.Stream.Err, "PodEvents panicked: test")
					require.Equal(t, 3, strings.Count(log.String(), "stack="), "each with its stack")
				}
				p.trouble.Store(nil)
				time.Sleep(5 * time.Second)
				require.True(t, r.Complete())
				require.NoError(t, r.Healthy())
				require.Equal(t, pleg.Evented, r.Health().Mode)
				require.Empty(t, r.Health().Stale)
				require.Equal(t, []string{"started web-sandbox", "started c-0"}, r.take())
				require.NoError(t, r.stop())
			})
		})
	}
}

// A panic in a callback is logged, and no other event is lost.
func TestCallbacksThatPanic(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		var log strings.Builder
		rt.Set(plegtest.Pod("bad", plegtest.Running("c-0")))
		rt.Set(plegtest.Pod("good", plegtest.Running("c-1")))
		var received []string
		p, err := pleg.New(pleg.Config{
			Runtime: rt.WithEvents(),
			Logger:  slog.New(slog.NewTextHandler(&log, nil)),
			OnEvent: func(e pleg.Event) {
				if e.UID == "bad" {
					panic("bad event")
				}
				received = append(received, e.String())
			},
			OnHealth: func(error) { panic("bad health") },
			Metrics: pleg.Metrics{
				OnList:    func(time.Duration, int, error) { panic("bad list") },
				OnInspect: func(time.Duration, error) { panic("bad inspection") },
				OnStream:  func(pleg.StreamHealth) { panic("bad stream") },
				OnMode:    func(pleg.Mode) { panic("bad mode") },
			},
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.NoError(t, p.Healthy())
		require.Equal(t, []string{"good started sandbox good-sandbox", "good started container c c-1"}, received)
		s, err := p.Observe(t.Context(), "bad", time.Now())
		require.NoError(t, err)
		require.False(t, s.Empty())
		cancel()
		require.NoError(t, <-done)
		for _, what := range []string{"OnEvent panicked: bad event", "OnHealth panicked: bad health", "bad list", "bad inspection", "bad stream", "bad mode", "stack="} {
			require.Contains(t, log.String(), what)
		}
	})
}
