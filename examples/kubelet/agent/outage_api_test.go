package agent

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/internal/podfacts"
)

func hours(h time.Duration) time.Duration {
	if testing.Short() {
		return h * 4 * time.Minute
	}
	return h * time.Hour
}

// Hours with an API server that is away, slow, overloaded, failing, loses data or cuts responses
// harm no pod, also across a restart of the agent. Containers that exit are restarted meanwhile. Pods
// that end are reported, and deletions carried out, once afterwards and with their real times.
func TestLongOutageOfTheAPIServer(t *testing.T) {
	always := func(f apitest.Fault) func(*world) {
		return func(w *world) { w.api.SetFault(func(apitest.Call) apitest.Fault { return f }) }
	}
	for name, breaks := range map[string]func(*world){
		"away":    func(w *world) { w.api.SetDown(true) },
		"slow":    always(apitest.Fault{Delay: 2 * time.Second}),
		"busy":    always(apitest.Fault{Status: http.StatusTooManyRequests, RetryAfter: 30}),
		"failing": always(apitest.Fault{Status: http.StatusInternalServerError}),
		"cut":     always(apitest.Fault{Cut: true}),
		"too old": func(w *world) {
			w.api.SetFault(func(c apitest.Call) (f apitest.Fault) {
				if c.Verb == "watch" {
					f.Status = http.StatusGone
				}
				return f
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var died atomic.Bool
			crash := func(ctx context.Context, p *fake.Process) int {
				if died.Swap(true) {
					return fake.SleepUntilStopped(ctx, p)
				}
				return after(3*time.Minute, 1)(ctx, p)
			}
			programs := map[string]fake.Program{"ends": after(3*time.Minute, 7), "dies": crash}
			inClusterOf(t, fake.Config{Programs: fake.ByContainer(programs, fake.SleepUntilStopped)}, func(w *world) {
				ends := bound("ends", "ends")
				ends.Spec.RestartPolicy = v1.RestartPolicyNever
				w.put(bound("stays", "c"), ends, bound("goes", "d"), bound("dies", "dies"))
				w.startFor(5 * time.Second)
				ready := readySince(w.at("stays"))
				breaks(w)
				w.api.CloseWatches()
				w.Sleep(hours(1))
				require.Equal(t, map[string][]uint32{"c": {0}, "d": {0}, "dies": {1}}, w.Running())
				if name == "away" {
					w.stop()
					w.startFor(hours(2))
					require.Equal(t, map[string][]uint32{"c": {0}, "d": {0}, "dies": {1}}, w.Running(), "an unread source does not count as empty")
				}
				w.remove("goes")
				w.api.SetFault(nil)
				w.api.SetDown(false)
				w.Sleep(2 * time.Minute)
				require.Nil(t, w.at("goes"))
				require.Equal(t, map[string][]uint32{"c": {0}, "dies": {1}}, w.Running())
				require.EqualValues(t, 1, w.at("dies").Status.ContainerStatuses[0].RestartCount)
				require.Equal(t, v1.PodFailed, w.at("ends").Status.Phase)
				require.EqualValues(t, 7, w.at("ends").Status.ContainerStatuses[0].State.Terminated.ExitCode)
				require.Equal(t, ready, readySince(w.at("stays")))
				require.Contains(t, w.nodeCondition(v1.NodeReady), "True KubeletReady: ")
				told := w.api.CountCalls("patch", "pods")
				w.Sleep(hours(1))
				require.Equal(t, told, w.api.CountCalls("patch", "pods"), "each change is reported once")
			})
		})
	}
}

// readySince returns the Ready condition, whose transition time shows changes.
func readySince(pod *v1.Pod) v1.PodCondition {
	return *podfacts.Condition(pod.Status.Conditions, v1.PodReady)
}
