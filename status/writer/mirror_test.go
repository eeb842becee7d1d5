package writer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status/statustest"
	"github.com/podwright/podwright/status/writer"
)

func staticPod(name string) *v1.Pod {
	pod := newPod(name)
	pod.Spec.RestartPolicy = v1.RestartPolicyAlways
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "hash-" + name}
	return pod
}

// mirror makes the mirror of a static pod at the sink. The rig knows it once know
// is called.
func (r *rig) mirror(static *v1.Pod, uid types.UID) (mirror *v1.Pod, know func()) {
	mirror = newPod(static.Name)
	mirror.UID = uid
	mirror.Annotations = map[string]string{"kubernetes.io/config.mirror": static.Annotations["kubernetes.io/config.hash"], "kubernetes.io/config.source": "api"}
	mirror = r.sink.Put(mirror)
	return mirror, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.mirrors[static.UID] = mirror
	}
}

// mirrorBubble is a bubble in which static pods have mirrors.
func mirrorBubble(t *testing.T, test func(*rig)) {
	var r *rig
	bubble(t, func(cfg *writer.Config) {
		mirrored(&r)(cfg)
		translate, mirror := cfg.TranslateUID, cfg.Mirror
		cfg.TranslateUID = func(uid types.UID) types.UID {
			if r == nil {
				return uid
			}
			return translate(uid)
		}
		cfg.Mirror = func(uid types.UID) *v1.Pod { return mirror(uid) }
	}, func(got *rig) {
		r = got
		test(got)
	})
}

// T30: the status of a static pod goes to its mirror, and to the next one when that
// is made anew. No mirror is ever removed.
func TestMirror(t *testing.T) {
	mirrorBubble(t, func(r *rig) {
		pod := staticPod("a")
		mirror, know := r.mirror(pod, "mirror-1")
		know()
		r.Set(pod, running(pod, true))
		r.pass(0)
		require.Equal(t, v1.PodRunning, r.pod("a").Status.Phase)
		require.Equal(t, types.UID("mirror-1"), r.sink.Calls(statustest.Patch)[0].Ref.UID)
		require.NotNil(t, r.Get("mirror-1"), "6.1 a mirror's UID stands for the pod's")
		require.NotNil(t, r.Get(pod.UID))
		r.Change("mirror-1", func(s v1.PodStatus) v1.PodStatus { return withMessage(s, "changed") })
		require.Equal(t, "changed", r.Get(pod.UID).Message)
		r.pass(0)

		_, know = r.mirror(pod, "mirror-2")
		know()
		r.sink.ForgetCalls()
		r.Observe(r.pod("a"))
		r.pass(0)
		require.Equal(t, v1.PodRunning, r.pod("a").Status.Phase, "sent again")
		require.Equal(t, types.UID("mirror-2"), r.sink.Calls(statustest.Patch)[0].Ref.UID)

		r.Observe(r.sink.MarkDeleted("ns", "a"))
		r.Set(pod, ended(pod, 0))
		r.Terminate(pod)
		r.pass(time.Hour)
		require.Empty(t, r.sink.Calls(statustest.Delete))
		require.NotNil(t, r.pod("a"))
		r.Set(pod, running(pod, true))
		r.pass(time.Second)
		require.Equal(t, v1.PodRunning, r.pod("a").Status.Phase, "a static pod can begin anew")
		_ = mirror
	})
}

// T31: no mirror is no error, and nothing is lost.
func TestNoMirror(t *testing.T) {
	mirrorBubble(t, func(r *rig) {
		pod := staticPod("a")
		r.Set(pod, running(pod, false))
		r.pass(time.Minute)
		require.Empty(t, r.sink.Calls())
		x, _ := r.Explain(pod.UID)
		require.True(t, x.NoMirror && x.Unwritten && x.Err == nil)
		_, know := r.mirror(pod, "mirror-1")
		know()
		r.pass(10 * time.Second)
		require.Equal(t, v1.PodRunning, r.pod("a").Status.Phase, "seen at the next resync without being told")

		r.sink.Remove("ns", "a")
		r.Set(pod, running(pod, true))
		r.pass(time.Second)
		require.Equal(t, "True", value(r.Get(pod.UID), v1.PodReady), "T31 the entry is kept")
		r.mu.Lock()
		r.mirrors[pod.UID] = nil
		r.mu.Unlock()
		r.pass(time.Hour)
		r.sink.ForgetCalls()
		r.pass(time.Hour)
		require.Empty(t, r.sink.Calls(), "nobody is asked for nothing")
		mirror, know := r.mirror(pod, "mirror-2")
		know()
		r.Observe(mirror)
		r.pass(0)
		require.Equal(t, "True", value(&r.pod("a").Status, v1.PodReady), "at once when it was observed")
	})
}

// T32: the sink has another mirror already than the one that is known here.
func TestMirrorTranslationLags(t *testing.T) {
	mirrorBubble(t, func(r *rig) {
		pod := staticPod("a")
		_, know := r.mirror(pod, "mirror-1")
		know()
		r.mirror(pod, "mirror-2")
		r.Set(pod, running(pod, true))
		r.pass(time.Second)
		require.Equal(t, v1.PodRunning, r.pod("a").Status.Phase, "by what the sink returned")
		r.Set(pod, running(pod, false))
		r.pass(time.Second)
		require.Equal(t, "False", value(&r.pod("a").Status, v1.PodReady), "it does not go back to the old one")

		third, know := r.mirror(pod, "mirror-3")
		r.Observe(third)
		r.pass(time.Second)
		require.Equal(t, v1.PodRunning, r.pod("a").Status.Phase, "by what was observed")
		r.mu.Lock()
		r.mirrors[pod.UID] = nil
		r.mu.Unlock()
		r.Set(pod, running(pod, true))
		r.pass(time.Second)
		require.Equal(t, "True", value(&r.pod("a").Status, v1.PodReady), "that the old one is gone says nothing about the new one")
		know()
		r.sink.ForgetCalls()
		r.pass(time.Hour)
		require.Empty(t, r.sink.Calls(), "to be told late changes nothing")
	})
}

// The mirror of an earlier version of the manifest gets nothing of the new one.
func TestMirrorOfAnotherVersion(t *testing.T) {
	mirrorBubble(t, func(r *rig) {
		old := staticPod("a")
		pod := staticPod("a")
		pod.UID, pod.Annotations["kubernetes.io/config.hash"] = "uid-new", "hash-new"
		mirror, _ := r.mirror(old, "mirror-1")
		r.Set(pod, running(pod, true))
		r.Observe(mirror)
		r.pass(time.Minute)
		require.Equal(t, v1.PodPending, r.pod("a").Status.Phase)
	})
}

// Where static pods have no mirrors, they are pods like all others.
func TestStaticPodsWithoutMirrors(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		pod := r.sink.Put(staticPod("a"))
		r.Set(pod, running(pod, true))
		r.pass(0)
		require.Equal(t, v1.PodRunning, r.pod("a").Status.Phase)
	})
}

// Where static pods have mirrors, other pods are written as they are.
func TestPodsBesideMirrors(t *testing.T) {
	mirrorBubble(t, func(r *rig) {
		pod := r.sink.Put(newPod("a"))
		began := metav1.NewTime(time.Now().Add(-time.Hour))
		r.mirrors[pod.UID] = &v1.Pod{Status: v1.PodStatus{StartTime: &began}} // which is none
		r.Set(pod, running(pod, true))
		require.NotEqual(t, began.Unix(), r.Get(pod.UID).StartTime.Unix())
		r.pass(0)
		require.Equal(t, v1.PodRunning, r.pod("a").Status.Phase)
	})
}

// A Receiver is handed the status of a static pod, whether that has a mirror or not.
func TestReceiverWithMirrors(t *testing.T) {
	told := &receiver{}
	bubble(t, func(cfg *writer.Config) {
		cfg.Sinks = []writer.NamedSink{{Name: "told", Sink: told.sink(), Mirrors: true}}
		cfg.Mirror = func(types.UID) *v1.Pod { return nil }
	}, func(r *rig) {
		pod := staticPod("a")
		r.Set(pod, running(pod, true))
		r.pass(0)
		require.Equal(t, []string{"a Running "}, told.take())
	})
}

// What another kubelet has shown meanwhile of a static pod stands on its mirror.
func TestRestoreAfterAnotherAgentOnTheMirror(t *testing.T) {
	mirrorBubble(t, func(r *rig) {
		r.pass(time.Hour)
		ready := func(s v1.ConditionStatus, ago time.Duration) []v1.PodCondition {
			return []v1.PodCondition{{Type: v1.PodReady, Status: s, LastTransitionTime: metav1.NewTime(time.Now().Add(-ago))}}
		}
		pod := staticPod("a")
		mirror, know := r.mirror(pod, "mirror")
		mirror.Status.Conditions = ready("True", time.Minute)
		know()
		kept := running(pod, true)
		kept.Conditions = ready("False", time.Hour)
		r.Restore(pod, kept)
		require.Equal(t, v1.ConditionTrue, r.Get(pod.UID).Conditions[0].Status)
	})
}
