package pods

import (
	"encoding/json"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/internal/podfacts"
)

// C30, C31, C32: the source of the grace period.
func TestGraceSeconds(t *testing.T) {
	probed := testPod("a", "b")
	probed.Spec.TerminationGracePeriodSeconds = new(int64(60))
	probed.Spec.Containers[0].LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: new(int64(3))}
	probed.Spec.Containers[0].StartupProbe = &v1.Probe{TerminationGracePeriodSeconds: new(int64(4))}
	sidecar := *probed.Spec.Containers[0].DeepCopy()
	sidecar.Name = "s"
	probed.Spec.InitContainers = []v1.Container{sidecar}
	probed.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}}
	deleted := probed.DeepCopy()
	deleted.DeletionGracePeriodSeconds = new(int64(10))
	unset := testPod("a")
	unset.Spec.TerminationGracePeriodSeconds = nil
	bad := testPod("a")
	bad.Spec.TerminationGracePeriodSeconds = new(int64(-7))
	for _, tc := range []struct {
		name      string
		pod       *v1.Pod
		container string
		reason    actions.KillReason
		override  *int64
		want      int64
	}{
		{"spec", probed, "a", "", nil, 60},
		{"unset", unset, "a", "", nil, 2},
		{"negative", bad, "a", "", nil, 0},
		{"liveness", probed, "a", actions.KillLivenessProbe, nil, 3},
		{"startup", probed, "a", actions.KillStartupProbe, nil, 4},
		{"liveness of a sidecar", probed, "s", actions.KillLivenessProbe, nil, 3},
		{"liveness of another", probed, "b", actions.KillLivenessProbe, nil, 60},
		{"ephemeral", probed, "debug", actions.KillLivenessProbe, nil, 60},
		{"not in the spec", probed, "gone", actions.KillLivenessProbe, nil, 60},
		{"deletion wins over the probe", deleted, "a", actions.KillLivenessProbe, nil, 10},
		{"override wins over all", deleted, "a", actions.KillLivenessProbe, new(int64(5)), 5},
		{"override is no minimum", deleted, "a", "", new(int64(50)), 50},
		{"override 0", deleted, "a", "", new(int64(0)), 0},
		{"negative override", deleted, "a", "", new(int64(-1)), 0},
		{"orphan", nil, "a", "", nil, 2},
		{"orphan with override", nil, "a", "", new(int64(9)), 9},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, graceSeconds(tc.pod, podfacts.Container(tc.pod, tc.container), tc.reason, tc.override))
		})
	}
	for reason, set := range map[actions.KillReason]func(p *v1.Pod, seconds *int64){
		"":         func(p *v1.Pod, n *int64) { p.Spec.TerminationGracePeriodSeconds = n },
		"deletion": func(p *v1.Pod, n *int64) { p.DeletionGracePeriodSeconds = n },
		actions.KillLivenessProbe: func(p *v1.Pod, n *int64) {
			p.Spec.Containers[0].LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: n}
		},
		actions.KillStartupProbe: func(p *v1.Pod, n *int64) {
			p.Spec.Containers[0].StartupProbe = &v1.Probe{TerminationGracePeriodSeconds: n}
		},
	} {
		for seconds, want := range map[int64]int64{math.MaxInt64: 1<<31 - 1, math.MaxInt64/int64(time.Second) + 1: 1<<31 - 1, math.MinInt64: 0} {
			pod := testPod("a")
			set(pod, &seconds)
			require.Equal(t, want, graceSeconds(pod, &pod.Spec.Containers[0], reason, nil), "%s %d", reason, seconds)
			require.Equal(t, want, graceSeconds(probed, &probed.Spec.Containers[0], reason, &seconds), "override")
		}
	}
}

// Extreme numbers of seconds do not overflow: neither in the spec, nor in the annotations of a
// pod without an available spec, nor in a sleep handler. The container takes 5 s to end.
func TestSecondsAtTheirLimits(t *testing.T) {
	type times map[int64]time.Duration
	for name, tc := range map[string]struct {
		set     func(pod *v1.Pod, seconds int64)
		restore bool
		want    times
	}{
		"grace":               {func(p *v1.Pod, n int64) { p.Spec.TerminationGracePeriodSeconds = &n }, false, times{math.MaxInt64: 5 * s, math.MinInt64: 2 * s}},
		"grace in annotation": {func(p *v1.Pod, n int64) { p.Spec.TerminationGracePeriodSeconds = &n }, true, times{math.MaxInt64: 5 * s, math.MinInt64: 2 * s}},
		"sleep":               {func(p *v1.Pod, n int64) { preStop(p, "a", sleepHandler(n)) }, false, times{math.MaxInt64: 32 * s, math.MinInt64: 5 * s}},
		"grace of a sleep": {func(p *v1.Pod, n int64) {
			preStop(p, "a", sleepHandler(10))
			p.Spec.TerminationGracePeriodSeconds = &n
		}, false, times{math.MaxInt64: 15 * s, math.MinInt64: 2 * s}},
	} {
		for seconds, want := range tc.want {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h, _ := timed(t, fake.Config{Programs: fake.Always(slow(5 * s))})
					pod := testPod("a")
					tc.set(pod, seconds)
					request := KillRequest{Status: h.mustSync(pod), Restore: tc.restore}
					if !tc.restore {
						request.Pod = pod
					}
					synctest.Wait() // until the container's program, which ends slowly, has begun
					begin := time.Now()
					require.NoError(t, h.m.KillPod(t.Context(), request).Err())
					require.Equal(t, want, time.Since(begin), seconds)
				})
			})
		}
	}
}

// Arbitrary annotations are safe: valid ones are used and invalid ones ignored.
func FuzzRestoreSpec(f *testing.F) {
	f.Add("30", "5", `{"exec":{"command":["sh"]}}`, `[{"name":"web","containerPort":80}]`)
	f.Add("", "-1", `{"sleep":{"seconds":3}}`, ``)
	f.Add("x", "99999999999999999999", `{"exec":`, `{"name":1}`)
	f.Add("0", "1 ", `null`, `null`)
	f.Fuzz(func(t *testing.T, termination, deletion, handler, ports string) {
		status := &runtimeapi.ContainerStatus{
			Labels: map[string]string{labels.PodName: "web", labels.PodNamespace: "shop", labels.PodUID: "0d1e", labels.ContainerName: "a"},
			Annotations: map[string]string{
				labels.AnnotationPodTerminationGrace: termination, labels.AnnotationPodDeletionGracePeriod: deletion,
				labels.AnnotationPreStopHandler: handler, labels.AnnotationPorts: ports,
			},
		}
		pod, container := restoreSpec(status)
		require.Equal(t, "shop/web(0d1e) a", identityOf(pod).String()+" "+container.Name)
		grace := graceSeconds(pod, container, "", nil)
		require.True(t, grace >= 0 && grace <= maxGraceSeconds)
		var want v1.LifecycleHandler
		if handler != "" && json.Unmarshal([]byte(handler), &want) == nil {
			require.Equal(t, &want, container.Lifecycle.PreStop)
		} else {
			require.Nil(t, container.Lifecycle)
		}
	})
}

func TestRestoreSpecOfNothing(t *testing.T) {
	pod, container := restoreSpec(nil)
	require.Equal(t, &v1.Pod{}, pod)
	require.Equal(t, &v1.Container{}, container)
}
