package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/pleg/observed"
)

// faults makes calls fail before or after their effect, hang until they are cancelled, or take
// effect after that.
type faults struct {
	mu   sync.Mutex
	rand *rand.Rand
	rate float64
	late sync.WaitGroup
}

func (tr *faults) roll() (kind int, delay time.Duration) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	delay = time.Duration(tr.rand.Int64N(int64(200 * time.Millisecond)))
	if tr.rand.Float64() >= tr.rate {
		return 0, delay
	}
	return 1 + tr.rand.IntN(4), delay
}

func (tr *faults) around(ctx context.Context, call string, do func() error) error {
	kind, delay := tr.roll()
	time.Sleep(delay)
	switch kind {
	case 1:
		return errors.New("refused")
	case 2:
		_ = do()
		return errors.New("the answer was lost")
	case 3, 4: // the result for a client with a timeout of two minutes
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Minute):
		}
		if kind == 4 {
			tr.late.Go(func() {
				time.Sleep(10 * delay)
				_ = do()
			})
		}
		return context.DeadlineExceeded
	}
	return do()
}

func (tr *faults) setRate(r float64) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.rate = r
}

func (w *world) requireOneInstance() {
	w.t.Helper()
	seen := map[string]int{}
	for _, c := range w.Containers() {
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			key := c.Labels[labels.PodUID] + "/" + c.Metadata.Name
			seen[key]++
			require.LessOrEqual(w.t, seen[key], 1, key)
		}
	}
}

// requireUp fails unless the pod has one ready sandbox and running containers.
func (w *world) requireUp(pod *v1.Pod) {
	w.t.Helper()
	seen, err := w.agent.syncer.PLEG().Observe(w.t.Context(), pod.UID, time.Now())
	require.NoError(w.t, err)
	ready := slices.DeleteFunc(seen.Sandboxes, func(sb observed.Sandbox) bool { return sb.State != observed.SandboxReady })
	require.Len(w.t, ready, 1, "sandboxes")
	require.NotEmpty(w.t, seen.Running())
}

// With random changes of manifests, failures of all kinds of calls, and kills of the agent, no
// container ever runs twice. Once the failures end, the actual pods become the desired pods.
func TestRandomFaults(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 8
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			var lacking []string
			if seed%2 == 0 {
				lacking = []string{"GetContainerEvents"}
			}
			inWorld(t, fake.Config{Unimplemented: lacking, Programs: fake.ByContainer(map[string]fake.Program{"once": fake.Exit(0)}, fake.SleepUntilStopped)}, func(w *world) {
				r := rand.New(rand.NewPCG(uint64(seed), 1))
				tr := &faults{rand: rand.New(rand.NewPCG(uint64(seed), 2)), rate: 0.15}
				defer tr.late.Wait()
				w.calls.Intercept(tr.around)
				w.start()
				for range 15 {
					var pods []*v1.Pod
					for i, policy := range []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyNever} {
						if r.IntN(2) == 0 {
							pods = append(pods, podOf(types.UID(fmt.Sprint(i)), policy, []string{"a", "once"}[i], "b"))
						}
					}
					w.set(pods...)
					w.Sleep(time.Duration(r.ExpFloat64() * float64(3*time.Second)))
					w.requireOneInstance()
					switch r.IntN(8) {
					case 0:
						w.stop()
						w.start()
					case 1: // kill -9: from now on no call takes effect
						w.calls.Intercept(func(ctx context.Context, _ string, _ func() error) error { <-ctx.Done(); return ctx.Err() })
						w.stop()
						w.calls.Intercept(tr.around)
						w.start()
					case 3: // the runtime loses all pods
						for _, sb := range w.Sandboxes() {
							require.NoError(w.t, w.runtime.StopPodSandbox(w.t.Context(), sb.Id))
							require.NoError(w.t, w.runtime.RemovePodSandbox(w.t.Context(), sb.Id))
						}
					case 2:
						if all := w.Sandboxes(); len(all) > 0 {
							_ = w.runtime.CrashSandbox(w.t.Context(), all[r.IntN(len(all))].Id)
						}
					}
				}
				tr.setRate(0)
				w.Sleep(5 * time.Minute)
				tr.late.Wait()
				w.Sleep(5 * time.Minute)
				w.requireOneInstance()
				for _, pod := range w.desired {
					phase := w.agent.syncer.Statuses().Get(pod.UID).Phase
					if phase == v1.PodFailed && pod.Spec.RestartPolicy == v1.RestartPolicyNever {
						continue // a killed agent did not see the removal
					}
					require.Equal(w.t, v1.PodRunning, phase, "%s", w.agent.syncer.Workers().State(pod.UID))
					w.requireUp(pod)
				}
				w.set()
				w.Sleep(5 * time.Minute)
				w.requireNothingLeft()
			})
		})
	}
}
