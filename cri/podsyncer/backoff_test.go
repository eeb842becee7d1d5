package podsyncer

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

// begun records the starts of a program that fails at once.
type begun struct {
	mu sync.Mutex
	at []time.Time
}

func (b *begun) program(context.Context, *fake.Process) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = append(b.at, time.Now())
	return 1
}

func (b *begun) starts() []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at
}

// await starts an agent with the pod and lets time pass until the program was started n times. Each
// pause may be longer by half.
func (b *begun) await(w *harness, n int, pod *v1.Pod) {
	w.run(0, pod)
	for range 200 {
		if len(b.starts()) >= n {
			break
		}
		w.Sleep(time.Second)
	}
	require.Len(w.t, b.starts(), n)
	w.Sleep(time.Second) // its end is observed and saved
}

// losses remove state of a pod from the runtime during a back-off.
var losses = map[string]func(w *harness){
	"dead containers": func(w *harness) {
		for _, c := range w.Containers() {
			if c.State == runtimeapi.ContainerState_CONTAINER_EXITED {
				require.NoError(w.t, w.runtime.RemoveContainer(w.t.Context(), c.Id))
			}
		}
	},
	"sandboxes": func(w *harness) {
		for _, sb := range w.Sandboxes() {
			require.NoError(w.t, w.runtime.StopPodSandbox(w.t.Context(), sb.Id))
		}
	},
	"everything": func(w *harness) {
		for _, sb := range w.Sandboxes() {
			require.NoError(w.t, w.runtime.RemovePodSandbox(w.t.Context(), sb.Id))
		}
	},
}

// A container's back-off survives losses of the runtime and kills of the agent: the saved status
// has the time of its last end and the restart count.
func TestABackOffOutlivesAgentAndRuntime(t *testing.T) {
	for what, lose := range losses {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprint(what, " killed ", killed), func(t *testing.T) {
				var b begun
				inHarness(t, fake.Config{Programs: fake.Always(b.program)}, func(w *harness) {
					b.await(w, 5, newPod("1", v1.RestartPolicyAlways, "a")) // 0, 0, 10, 30 and 70 s after the beginning, or somewhat later
					if !killed {
						lose(w)
					}
					for range 3 {
						if killed {
							w.crash()
							lose(w)
							w.start()
						}
						w.Sleep(20 * time.Millisecond) // the saved state is not yet the observed one
					}
					w.Sleep(time.Second)
					require.Len(t, b.starts(), 5, "it is held back")
					c := w.container("1", "a")
					require.Equal(t, "CrashLoopBackOff", c.State.Waiting.Reason)
					require.EqualValues(t, 4, c.RestartCount)
					w.Sleep(7 * time.Minute)
					starts := b.starts()
					for i, want := range []time.Duration{80 * time.Second, 160 * time.Second} {
						after := starts[5+i].Sub(starts[4+i])
						// Times are saved in whole seconds.
						require.True(t, after >= want-time.Second && after <= want*3/2+time.Second, "restart %d after %s, not %s", 5+i, after, want)
					}
				})
			})
		}
	}
}

// A saved back-off applies to its container only: not to another image, and not to a pod that
// returned after a removal.
func TestASavedBackOffIsOfOneContainer(t *testing.T) {
	t.Run("another image", func(t *testing.T) {
		var b begun
		inHarness(t, fake.Config{Programs: fake.Always(b.program)}, func(w *harness) {
			pod := newPod("1", v1.RestartPolicyAlways, "a")
			b.await(w, 5, pod)
			w.crash()
			losses["dead containers"](w)
			next := pod.DeepCopy()
			next.Spec.Containers[0].Image = "busybox:2"
			w.run(time.Second, next)
			require.Greater(t, len(b.starts()), 5)
		})
	})
	for _, killed := range []bool{false, true} {
		t.Run("another pod", func(t *testing.T) {
			var b begun
			inHarness(t, fake.Config{Programs: fake.Always(b.program)}, func(w *harness) {
				pod := newPod("1", v1.RestartPolicyAlways, "a")
				b.await(w, 5, pod)
				w.set()
				w.Sleep(time.Second)
				if killed {
					w.crash()
				}
				w.set(pod)
				if killed {
					w.start()
				}
				w.Sleep(5 * time.Second)
				require.Len(t, b.starts(), 7, "it begins with two starts at once")
			})
		})
	}
}
