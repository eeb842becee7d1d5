package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
)

func wanting(name, cpu string, change ...func(*v1.Pod)) *v1.Pod {
	pod := bound(name, name)
	if cpu != "" {
		pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

func withPriority(p int32) func(*v1.Pod) { return func(pod *v1.Pod) { pod.Spec.Priority = &p } }

const ofTheSystem = 2_000_000_000

func (w *world) node(cpu string) {
	w.allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourcePods: resource.MustParse("9")}
}

// N10: a pod that exceeds the allocatable resources fails without effect on others, also after a
// restart of the agent and with a higher priority.
func TestPodsBeyondAllocatableFail(t *testing.T) {
	inCluster(t, func(w *world) {
		w.node("2")
		w.put(wanting("a", "1"), wanting("b", "1"))
		w.startFor(5 * time.Second)
		w.put(wanting("late", "100m"))
		w.Sleep(5 * time.Second)
		before := map[string][]uint32{"a": {0}, "b": {0}}
		require.Equal(t, before, w.Running())
		require.Equal(t, "Failed OutOfcpu: Pod was rejected: Node didn't have enough resource: cpu, requested: 100, used: 2000, capacity: 2000", w.ended("late"))
		require.Contains(t, w.events("late"), "OutOfcpu")
		w.stop()
		w.put(wanting("high", "1", withPriority(1000)))
		w.startFor(5 * time.Second)
		require.Equal(t, before, w.Running())
		require.Equal(t, "OutOfcpu", w.at("high").Status.Reason)

		w.remove("a")
		w.Sleep(5 * time.Second)
		w.put(wanting("next", "1"))
		w.Sleep(5 * time.Second)
		require.Equal(t, map[string][]uint32{"b": {0}, "next": {0}}, w.Running())
	})
}

// Without an API server a static pod without room waits, with the reason on the status page, and runs
// when there is room.
func TestStaticPodAwaitsRoom(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		w.node("1")
		large, late := wanting("large", "600m"), wanting("late", "500m")
		large.UID, late.UID = "1", "2"
		w.set(large)
		w.startFor(5 * time.Second)
		w.set(large, late)
		w.Sleep(5 * time.Second)
		require.Equal(t, map[string][]uint32{"large": {0}}, w.Running())
		reports := w.agent.waiting()
		require.Len(t, reports, 1)
		require.Equal(t, "waiting for room: OutOfcpu: Node didn't have enough resource: cpu, requested: 500, used: 600, capacity: 1000", reports[0].LastError)
		w.set(late)
		w.Sleep(time.Minute)
		require.Equal(t, map[string][]uint32{"late": {0}}, w.Running())
		require.Empty(t, w.agent.waiting())
	})
}

// L6: the deletion of a rejected pod finishes, by the same or the next agent, also if no agent ran at
// the time. Other pods are not affected.
func TestRejectedPodIsDeleted(t *testing.T) {
	for name, remove := range map[string]func(*world){
		"the same agent": func(w *world) { w.remove("late") },
		"the next agent": func(w *world) { w.stop(); w.startFor(5 * time.Second); w.remove("late") },
		"no agent runs": func(w *world) {
			w.stop()
			w.remove("late")
			require.NotNil(w.t, w.at("late"), "the agent finishes the deletion")
			w.start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(w *world) {
				w.node("1")
				w.put(wanting("a", "1"))
				w.startFor(5 * time.Second)
				w.put(wanting("late", "100m"))
				w.Sleep(5 * time.Second)
				require.Equal(t, "OutOfcpu", w.at("late").Status.Reason)
				remove(w)
				w.Sleep(time.Second)
				require.Nil(t, w.at("late"), "does not wait for housekeeping")
				require.Equal(t, map[string][]uint32{"a": {0}}, w.Running())
			})
		})
	}
}

// A pod that this node must not run fails with the reason, and other pods run. The rejection is
// final, even if the next agent would admit the pod.
func TestRejectedPods(t *testing.T) {
	confined := func(pod *v1.Pod) {
		pod.Spec.SecurityContext = &v1.PodSecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}}
	}
	inCluster(t, func(w *world) {
		refused := map[string]struct {
			change func(*v1.Pod)
			want   []string
		}{
			"selector": {
				func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{"room": "3"} },
				[]string{"NodeAffinity: ", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"},
			},
			"sysctl": {func(pod *v1.Pod) {
				pod.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}}
			}, []string{"SysctlForbidden: ", "spec.securityContext.sysctls[0]: kernel.msgmax"}},
			"probe": {func(pod *v1.Pod) {
				pod.Spec.Containers[0].LivenessProbe = asking("alive", -1)
				pod.Spec.Containers[0].LivenessProbe.InitialDelaySeconds = -5
			}, []string{"UnsupportedPodSpec: ", "spec.containers[0].livenessProbe.initialDelaySeconds: -5", "spec.containers[0].livenessProbe.failureThreshold: -1"}},
			"apparmor": {confined, []string{"AppArmor: Pod was rejected: Cannot enforce AppArmor: AppArmor is not enabled on the host"}},
		}
		w.put(bound("good", "good"))
		for name, c := range refused {
			w.put(wanting(name, "", c.change))
		}
		w.startFor(5 * time.Second)
		require.Equal(t, map[string][]uint32{"good": {0}}, w.Running())
		for name, c := range refused {
			for _, want := range append(c.want, "Failed ") {
				require.Contains(t, w.ended(name), want)
			}
		}
		require.Contains(t, w.events("apparmor"), "AppArmor")
		w.stop()
		w.configure = func(c *Config) { c.AppArmor = true }
		w.put(wanting("late", "", confined))
		w.startFor(5 * time.Second)
		require.Equal(t, map[string][]uint32{"good": {0}, "late": {0}}, w.Running())
	})
}

// N11: a critical pod preempts the smallest sufficient pod, which ends within its own grace period.
// Other pods are not affected. The resources kept for the critical pod are not used for resizes of
// running pods. Each rejection is counted once, by its reason.
func TestPreemption(t *testing.T) {
	stubborn := func(pod *v1.Pod) { pod.Spec.TerminationGracePeriodSeconds = new(int64(20)) }
	inClusterOf(t, fake.Config{Programs: fake.ByContainer(map[string]fake.Program{"one": ignoreTERM}, fake.SleepUntilStopped)}, func(w *world) {
		w.node("5500m")
		half := wanting("half", "500m")
		half.Generation = 1
		w.put(half, wanting("one", "1", stubborn), wanting("four", "4"), wanting("none", ""))
		w.startFor(5 * time.Second)
		w.put(wanting("crit", "1", withPriority(ofTheSystem)))
		w.Sleep(5 * time.Second)
		w.wants("half", milli(600))
		w.Sleep(5 * time.Second)
		require.Contains(t, w.Running(), "one", "its grace period is 20 s")
		require.NotContains(t, w.Running(), "crit")
		require.NotNil(t, w.resizeCondition("half", v1.PodResizePending), "freed resources are for crit")
		w.put(wanting("late", "100m"))
		w.Sleep(20 * time.Second)
		require.Equal(t, map[string][]uint32{"half": {0}, "four": {0}, "none": {0}, "crit": {0}}, w.Running())
		require.NotNil(t, w.resizeCondition("half", v1.PodResizePending))
		require.Equal(t, "Failed Preempting: Preempted in order to admit critical pod (True TerminationByKubelet: Pod was preempted by Kubelet to accommodate a critical pod.)", w.ended("one"))
		require.Contains(t, w.events("one"), "Preempting")
		require.Equal(t, "OutOfcpu", w.at("late").Status.Reason, "the freed resources are not for this pod")
		require.Contains(t, body(w.agent.in.cfg.Metrics.Handler(), "/"), "\nkubelet_admission_rejections_total{reason=\"OutOfcpu\"} 1\n")

		w.put(wanting("huge", "9", withPriority(ofTheSystem)))
		w.Sleep(10 * time.Second)
		require.Equal(t, "UnexpectedAdmissionError", w.at("huge").Status.Reason)
		require.Len(t, w.Running(), 4, "no pod is preempted for a pod that still would not fit")
		w.remove("crit")
		w.Sleep(40 * time.Second)
		w.requireCPU("half", "half", 600)
	})
}

// After a restart, previously admitted pods come first; within each group critical pods, then by
// priority, then by age.
func TestAdmissionOrderAfterRestart(t *testing.T) {
	inCluster(t, func(w *world) {
		w.node("9")
		w.put(wanting("was", "1"), wanting("was-critical", "1", withPriority(ofTheSystem)))
		w.startFor(5 * time.Second)
		at := func(second int64) func(*v1.Pod) {
			return func(pod *v1.Pod) { pod.UID, pod.CreationTimestamp = types.UID(pod.Name), metav1.Unix(second, 0) }
		}
		static := func(pod *v1.Pod) { pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"} }
		list := []*v1.Pod{
			wanting("young", "1", at(9)), wanting("old", "1", at(1)), wanting("high", "1", withPriority(1000), at(9)), wanting("manifest", "1", static, at(9)),
			wanting("critical", "1", withPriority(ofTheSystem), at(9)), w.at("was"), w.at("was-critical"),
		}
		require.NoError(t, w.agent.lifecycle.order(list))
		var names []string
		for _, pod := range list {
			names = append(names, pod.Name)
		}
		require.Equal(t, []string{"was-critical", "was", "critical", "manifest", "high", "old", "young"}, names)
	})
}
