package agent

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
)

// An hour of an API server that is slow, busy, failing or forgetful, or cuts what it answers:
// no pod is harmed, and what ended meanwhile is told afterwards, as it was.
func TestAnHourOfAFaultyAPIServer(t *testing.T) {
	answer := func(f apitest.Fault) func(apitest.Call) apitest.Fault {
		return func(apitest.Call) apitest.Fault { return f }
	}
	for name, fault := range map[string]func(apitest.Call) apitest.Fault{
		"slow":    answer(apitest.Fault{Delay: 2 * time.Second}),
		"busy":    answer(apitest.Fault{Status: http.StatusTooManyRequests, RetryAfter: 30}),
		"failing": answer(apitest.Fault{Status: http.StatusInternalServerError}),
		"cut":     answer(apitest.Fault{Cut: true}),
		"too old": func(c apitest.Call) apitest.Fault {
			if c.Verb == "watch" {
				return apitest.Fault{Status: http.StatusGone}
			}
			return apitest.Fault{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			endsMeanwhile := func(ctx context.Context, _ *fake.Process) int {
				select {
				case <-ctx.Done():
					return 143
				case <-time.After(10 * time.Minute):
					return 7
				}
			}
			inWorld(t, fake.Config{Programs: fake.ByContainer(map[string]fake.Program{"ends": endsMeanwhile}, fake.SleepUntilStopped)}, func(w *world) {
				w.api = apitest.Start(w.t)
				w.start()
				stays, ends := bound("stays", "c"), bound("ends", "ends")
				ends.Spec.RestartPolicy = v1.RestartPolicyNever
				w.api.Put(stays)
				w.api.Put(ends)
				w.sleep(5 * time.Second)
				ready := readySince(w.at("stays"))
				w.api.SetFault(fault)
				w.api.CloseWatches()
				w.sleep(time.Hour)
				require.Equal(t, []uint32{0}, w.running()["c"])
				w.api.SetFault(nil)
				w.sleep(2 * time.Minute)
				require.Equal(t, v1.PodFailed, w.at("ends").Status.Phase)
				require.EqualValues(t, 7, w.at("ends").Status.ContainerStatuses[0].State.Terminated.ExitCode)
				require.Equal(t, ready, readySince(w.at("stays")))
				require.Equal(t, v1.ConditionTrue, w.nodeReady().Status)
				told := w.api.CountCalls("patch", "pods")
				w.sleep(time.Hour)
				require.Equal(t, told, w.api.CountCalls("patch", "pods"), "all is told once")
			})
		})
	}
}

// readySince is the condition, which is as it was if nothing has changed it.
func readySince(pod *v1.Pod) v1.PodCondition {
	return pod.Status.Conditions[slices.IndexFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady })]
}
