package pods

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/hooks"
)

// Every field of seconds, with the largest and the smallest values there are: none turns
// into its opposite. The container takes 5 s to end, and the pod gives it 30.
func TestSecondsAtTheirLimits(t *testing.T) {
	const most, least = math.MaxInt64, math.MinInt64
	probed := func(p *v1.Probe) *v1.Probe {
		p.Exec = &v1.ExecAction{Command: []string{"true"}}
		return p
	}
	for name, tc := range map[string]struct {
		set    func(pod *v1.Pod, seconds int64)
		reason KillReason
		// forMost and forLeast are how long the end takes.
		forMost, forLeast time.Duration
	}{
		"terminationGracePeriodSeconds": {func(p *v1.Pod, n int64) { p.Spec.TerminationGracePeriodSeconds = &n }, "", 5 * s, 2 * s},
		"deletionGracePeriodSeconds":    {func(p *v1.Pod, n int64) { p.DeletionGracePeriodSeconds = &n }, "", 5 * s, 2 * s},
		"livenessProbe": {func(p *v1.Pod, n int64) {
			p.Spec.Containers[0].LivenessProbe = probed(&v1.Probe{TerminationGracePeriodSeconds: &n})
		}, KillLivenessProbe, 5 * s, 2 * s},
		"startupProbe": {func(p *v1.Pod, n int64) {
			p.Spec.Containers[0].StartupProbe = probed(&v1.Probe{TerminationGracePeriodSeconds: &n})
		}, KillStartupProbe, 5 * s, 2 * s},
		"preStop.sleep": {func(p *v1.Pod, n int64) { preStop(p, "a", sleepHandler(n)) }, "", 32 * s, 5 * s},
		"preStop.sleep and grace": {func(p *v1.Pod, n int64) {
			preStop(p, "a", sleepHandler(10))
			p.Spec.TerminationGracePeriodSeconds = &n
		}, "", 15 * s, 2 * s},
	} {
		for value, want := range map[int64]time.Duration{most: tc.forMost, most - 1: tc.forMost, most / int64(time.Second): tc.forMost, least: tc.forLeast, least + 1: tc.forLeast} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newHarness(t, fake.Config{Programs: fake.Always(slow(5 * time.Second))})
					runner, err := hooks.New(hooks.Config{Exec: h.runtime})
					require.NoError(t, err)
					h.cfg.Hooks = runner
					h.restart()
					pod := testPod("a")
					pod.Spec.TerminationGracePeriodSeconds = ptr(int64(30))
					tc.set(pod, value)
					status := h.mustSync(pod)
					synctest.Wait() // until the container's program has begun, which is slow to end
					begin := time.Now()
					if tc.reason == "" {
						require.NoError(t, h.m.KillPod(t.Context(), KillRequest{Pod: pod, Status: status}).Err())
					} else {
						c := status.Newest("a")
						require.NoError(t, h.m.killContainer(t.Context(), podKill{identity: identityOf(pod), pod: pod, status: status},
							ContainerKill{ID: c.ID, Name: "a", Reason: tc.reason}))
					}
					require.Equal(t, want, time.Since(begin), value)
				})
			})
		}
	}
}

// The same for what comes with a kill, and for what the annotations of an orphan say.
func TestKillSecondsAtTheirLimits(t *testing.T) {
	for value, want := range map[int64]time.Duration{math.MaxInt64: 5 * s, math.MinInt64: 2 * s} {
		for _, restore := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, fake.Config{Programs: fake.Always(slow(5 * time.Second))})
				pod := testPod("a")
				request := KillRequest{Pod: pod, GraceSeconds: &value}
				if restore {
					pod.Spec.TerminationGracePeriodSeconds = &value
					request = KillRequest{Restore: true}
				}
				request.Status = h.mustSync(pod)
				synctest.Wait() // until the container's program has begun, which is slow to end
				begin := time.Now()
				require.NoError(t, h.m.KillPod(t.Context(), request).Err())
				require.Equal(t, want, time.Since(begin))
			})
		}
	}
}
