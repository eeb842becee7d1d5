package writer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status/statustest"
	"github.com/podwright/podwright/status/writer"
)

func staticPod(name string) *v1.Pod {
	pod := newPod(name)
	pod.Spec.RestartPolicy = v1.RestartPolicyAlways
	pod.Annotations = map[string]string{podfacts.ConfigSource: "file", podfacts.ConfigHash: "hash-" + name}
	return pod
}

func mirrorOf(static *v1.Pod, uid types.UID) *v1.Pod {
	mirror := newPod(static.Name)
	mirror.UID = uid
	mirror.Annotations = map[string]string{podfacts.ConfigMirror: static.Annotations[podfacts.ConfigHash], podfacts.ConfigSource: "api"}
	return mirror
}

// mirror puts the mirror of a static pod at the sink. Config.Mirror returns it after a call of
// publish.
func (r *rig) mirror(static *v1.Pod, uid types.UID) (mirror *v1.Pod, publish func()) {
	mirror = r.sink.Put(mirrorOf(static, uid))
	return mirror, func() { put(r, r.mirrors, static.UID, mirror) }
}

func mirrors(cfg *writer.Config) { cfg.Sinks[0].Mirrors = true }

// T30: the status of a static pod goes to its mirror, and to the next mirror when that is
// recreated. No mirror is ever removed.
func TestMirror(t *testing.T) {
	bubble(t, mirrors, func(r *rig) {
		pod := staticPod("a")
		_, publish := r.mirror(pod, "mirror-1")
		publish()
		r.Set(pod, running(pod, true))
		r.pass(0)
		require.Equal(t, v1.PodRunning, r.pod("a").Status.Phase)
		require.Equal(t, types.UID("mirror-1"), r.sink.Calls(statustest.Patch)[0].Ref.UID)
		require.NotNil(t, r.Get("mirror-1"), "6.1 a mirror's UID identifies its static pod")
		require.NotNil(t, r.Get(pod.UID))
		r.Change("mirror-1", func(s v1.PodStatus) v1.PodStatus { return withMessage(s, "changed") })
		require.Equal(t, "changed", r.Get(pod.UID).Message)
		r.pass(0)

		_, publish = r.mirror(pod, "mirror-2")
		publish()
		r.sink.ForgetCalls()
		r.Observe(r.pod("a"))
		r.pass(0)
		require.Equal(t, v1.PodRunning, r.pod("a").Status.Phase, "the new mirror gets the status")
		require.Equal(t, types.UID("mirror-2"), r.sink.Calls(statustest.Patch)[0].Ref.UID)

		r.Observe(r.sink.MarkDeleted("ns", "a"))
		r.Set(pod, ended(pod, 0))
		r.Terminate(pod)
		r.pass(time.Hour)
		require.Empty(t, r.sink.Calls(statustest.Delete))
		require.NotNil(t, r.pod("a"))
		r.Set(pod, running(pod, true))
		r.pass(time.Second)
		require.Equal(t, v1.PodRunning, r.pod("a").Status.Phase, "a static pod can restart after its end")
	})
}

// T31: a missing mirror is no error, and no status is lost.
func TestNoMirror(t *testing.T) {
	bubble(t, mirrors, func(r *rig) {
		pod := staticPod("a")
		r.Set(pod, running(pod, false))
		r.pass(time.Minute)
		require.Empty(t, r.sink.Calls())
		x, _ := r.Explain(pod.UID)
		require.True(t, !x.Since.IsZero() && x.Err == nil)
		require.Equal(t, "the static pod has no mirror pod", x.Why)
		_, publish := r.mirror(pod, "mirror-1")
		publish()
		r.pass(10 * time.Second)
		require.Equal(t, v1.PodRunning, r.pod("a").Status.Phase, "the next resync finds the mirror")

		r.sink.Remove("ns", "a")
		r.Set(pod, running(pod, true))
		r.pass(time.Second)
		require.Equal(t, "True", value(r.Get(pod.UID), v1.PodReady), "T31 the entry is kept")
		put(r, r.mirrors, pod.UID, nil)
		r.pass(time.Hour)
		r.sink.ForgetCalls()
		r.pass(time.Hour)
		require.Empty(t, r.sink.Calls(), "no calls without a mirror")
		mirror, publish := r.mirror(pod, "mirror-2")
		publish()
		r.Observe(mirror)
		r.pass(0)
		require.Equal(t, "True", value(&r.pod("a").Status, v1.PodReady), "written at once after the observation")
	})
}

// T32: the sink already has another mirror than Config.Mirror returns.
func TestMirrorTranslationLags(t *testing.T) {
	bubble(t, mirrors, func(r *rig) {
		pod := staticPod("a")
		_, publish := r.mirror(pod, "mirror-1")
		publish()
		r.mirror(pod, "mirror-2")
		r.Set(pod, running(pod, true))
		r.pass(time.Second)
		require.Equal(t, v1.PodRunning, r.pod("a").Status.Phase, "the mirror comes from the sink's result")
		r.Set(pod, running(pod, false))
		r.pass(time.Second)
		require.Equal(t, "False", value(&r.pod("a").Status, v1.PodReady), "the outdated mirror is not used again")

		third, publish := r.mirror(pod, "mirror-3")
		r.Observe(third)
		r.pass(time.Second)
		require.Equal(t, v1.PodRunning, r.pod("a").Status.Phase, "the mirror comes from the observation")
		put(r, r.mirrors, pod.UID, nil)
		r.Set(pod, running(pod, true))
		r.pass(time.Second)
		require.Equal(t, "True", value(&r.pod("a").Status, v1.PodReady), "the removal of the old mirror does not affect the new one")
		publish()
		r.sink.ForgetCalls()
		r.pass(time.Hour)
		require.Empty(t, r.sink.Calls(), "a late Config.Mirror causes no write")
	})
}

// An observed pod becomes the target if it is the mirror of this version of the static pod and
// has no deletion request. Without NamedSink.Mirrors it is no mirror.
func TestObservedMirror(t *testing.T) {
	deleted := metav1.Now()
	for name, c := range map[string]struct {
		change  func(mirror *v1.Pod)
		without bool // the sink has no mirrors
		written bool
	}{
		"mirror":            {change: func(*v1.Pod) {}, written: true},
		"without mirrors":   {change: func(*v1.Pod) {}, without: true},
		"another version":   {change: func(m *v1.Pod) { m.Annotations[podfacts.ConfigMirror] = "hash-old" }},
		"no mirror":         {change: func(m *v1.Pod) { m.Annotations = nil }},
		"another name":      {change: func(m *v1.Pod) { m.Name = "b" }},
		"another namespace": {change: func(m *v1.Pod) { m.Namespace = "other" }},
		"deletion request":  {change: func(m *v1.Pod) { m.DeletionTimestamp = &deleted }},
	} {
		t.Run(name, func(t *testing.T) {
			configure := mirrors
			if c.without {
				configure = nil
			}
			bubble(t, configure, func(r *rig) {
				pod := staticPod("a")
				mirror := mirrorOf(pod, "mirror")
				c.change(mirror)
				mirror = r.sink.Put(mirror)
				r.Set(pod, running(pod, true))
				r.Observe(mirror)
				r.pass(time.Minute)
				if c.written {
					require.Equal(t, 1, r.written())
					return
				}
				require.Zero(t, r.written())
			})
		})
	}
}

// If static pods have mirrors, other pods are still written under their own UIDs.
func TestPodsBesideMirrors(t *testing.T) {
	bubble(t, mirrors, func(r *rig) {
		pod := r.sink.Put(newPod("a"))
		began := metav1.NewTime(time.Now().Add(-time.Hour))
		put(r, r.mirrors, pod.UID, &v1.Pod{Status: v1.PodStatus{StartTime: &began}}) // not a mirror
		r.Set(pod, running(pod, true))
		require.NotEqual(t, began.Unix(), r.Get(pod.UID).StartTime.Unix())
		r.pass(0)
		require.Equal(t, v1.PodRunning, r.pod("a").Status.Phase)
	})
}

// A Receiver gets the status of a static pod with or without a mirror.
func TestReceiverWithMirrors(t *testing.T) {
	recv := &receiver{}
	bubble(t, func(cfg *writer.Config) {
		cfg.Sinks = []writer.NamedSink{{Name: "receiver", Sink: recv.sink(), Mirrors: true}}
	}, func(r *rig) {
		pod := staticPod("a")
		r.Set(pod, running(pod, true))
		r.pass(0)
		require.Equal(t, []string{"a Running "}, recv.take())
	})
}

// A static pod does not come from the sink, so its mirror's status is read.
func TestOriginOfStaticPods(t *testing.T) {
	bubble(t, func(cfg *writer.Config) { mirrors(cfg); cfg.Sinks[0].Origin = true }, func(r *rig) {
		pod := staticPod("a")
		_, publish := r.mirror(pod, "mirror")
		publish()
		r.Set(pod, running(pod, true))
		r.pass(0)
		require.Len(t, r.sink.Calls(statustest.Get), 1)
		require.Equal(t, 1, r.written())
	})
}

// A mirror that is recreated during a write of its predecessor gets the status, too.
func TestMirrorRecreatedDuringAWrite(t *testing.T) {
	bubble(t, mirrors, func(r *rig) {
		pod := staticPod("a")
		first, publish := r.mirror(pod, "mirror-1")
		publish()
		r.sink.Watch(func(seen *v1.Pod) {
			if seen.UID == first.UID {
				r.Observe(r.sink.Put(mirrorOf(pod, "mirror-2")))
			}
		})
		r.Set(pod, running(pod, true))
		r.pass(time.Minute)
		require.Equal(t, types.UID("mirror-2"), r.pod("a").UID)
		require.Equal(t, v1.PodRunning, r.pod("a").Status.Phase)
	})
}
