package agent

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/internal/podfacts"
)

// wanting is a pod of this node with one container of its name that requests so much cpu.
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

// N10: who comes when all is given away has failed, and nobody else notices; also not when
// the agent is restarted, for one of a higher priority either.
func TestNoRoom(t *testing.T) {
	inWorld(t, fake.Config{Programs: fake.ByContainer(nil, fake.SleepUntilStopped)}, func(w *world) {
		w.api = apitest.Start(w.t)
		w.node("2")
		w.api.Put(wanting("a", "1"))
		w.api.Put(wanting("b", "1"))
		w.start()
		w.sleep(5 * time.Second)
		w.api.Put(wanting("late", "100m"))
		w.sleep(5 * time.Second)
		before := map[string][]uint32{"a": {0}, "b": {0}}
		require.Equal(t, before, w.running())
		late := w.at("late").Status
		require.Equal(t, "Failed OutOfcpu", string(late.Phase)+" "+late.Reason)
		require.Equal(t, "Pod was rejected: Node didn't have enough resource: cpu, requested: 100, used: 2000, capacity: 2000", late.Message)
		require.Contains(t, w.events("late"), "OutOfcpu")
		w.stop()
		w.api.Put(wanting("high", "1", withPriority(1000)))
		w.start()
		w.sleep(5 * time.Second)
		require.Equal(t, before, w.running())
		require.Equal(t, "OutOfcpu", w.at("high").Status.Reason)

		w.remove("a")
		w.sleep(5 * time.Second)
		w.api.Put(wanting("next", "1"))
		w.sleep(5 * time.Second)
		require.Equal(t, map[string][]uint32{"b": {0}, "next": {0}}, w.running())
	})
}

// L6: who was refused and is deleted at the API goes from there, whichever agent refused it,
// and also when none ran at the time. Nobody else notices.
func TestWhoWasRefusedIsDeleted(t *testing.T) {
	for name, remove := range map[string]func(*world){
		"the same agent": func(w *world) { w.remove("late") },
		"the next agent": func(w *world) { w.stop(); w.start(); w.sleep(5 * time.Second); w.remove("late") },
		"no agent runs":  func(w *world) { w.stop(); w.remove("late"); w.start() },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, fake.Config{}, func(w *world) {
				w.api = apitest.Start(w.t)
				w.node("1")
				w.api.Put(wanting("a", "1"))
				w.start()
				w.sleep(5 * time.Second)
				w.api.Put(wanting("late", "100m"))
				w.sleep(5 * time.Second)
				require.Equal(t, "OutOfcpu", w.at("late").Status.Reason)
				remove(w)
				require.NotNil(t, w.at("late"), "it is the agent that lets it go")
				w.sleep(time.Second)
				require.Nil(t, w.at("late"), "no housekeeping is waited for")
				require.Equal(t, map[string][]uint32{"a": {0}}, w.running())
			})
		})
	}
}

// Who asks to be confined by AppArmor runs where that is done, and nowhere else.
func TestAppArmor(t *testing.T) {
	inWorld(t, fake.Config{Programs: fake.ByContainer(nil, fake.SleepUntilStopped)}, func(w *world) {
		w.api = apitest.Start(w.t)
		confined := func(pod *v1.Pod) {
			pod.Spec.SecurityContext = &v1.PodSecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}}
		}
		w.api.Put(wanting("early", "", confined))
		w.start()
		w.sleep(5 * time.Second)
		require.Empty(t, w.running())
		early := w.at("early").Status
		require.Equal(t, "Failed AppArmor: Pod was rejected: Cannot enforce AppArmor: AppArmor is not enabled on the host", string(early.Phase)+" "+early.Reason+": "+early.Message)
		require.Contains(t, w.events("early"), "AppArmor")
		w.stop()
		w.configure = func(c *Config) { c.AppArmor = true }
		w.api.Put(wanting("late", "", confined))
		w.start()
		w.sleep(5 * time.Second)
		require.Equal(t, map[string][]uint32{"late": {0}}, w.running(), "what is refused stays so")
	})
}

// N11: a critical pod takes the place of the one that is just enough, which ends in its own
// time, and nobody else notices.
func TestPreemption(t *testing.T) {
	ignoring := func(ctx context.Context, p *fake.Process) int {
		p.Signals()
		<-ctx.Done()
		return 0
	}
	stubborn := func(pod *v1.Pod) { pod.Spec.TerminationGracePeriodSeconds = new(int64(20)) }
	inWorld(t, fake.Config{Programs: fake.ByContainer(map[string]fake.Program{"one": ignoring}, fake.SleepUntilStopped)}, func(w *world) {
		w.api = apitest.Start(w.t)
		w.node("5500m")
		for _, pod := range []*v1.Pod{wanting("half", "500m"), wanting("one", "1", stubborn), wanting("four", "4"), wanting("none", "")} {
			w.api.Put(pod)
		}
		w.start()
		w.sleep(5 * time.Second)
		w.api.Put(wanting("crit", "1", withPriority(ofTheSystem)))
		w.sleep(10 * time.Second)
		require.Contains(t, w.running(), "one", "it has 20 s to end")
		require.NotContains(t, w.running(), "crit")
		w.api.Put(wanting("late", "100m"))
		w.sleep(20 * time.Second)
		require.Equal(t, map[string][]uint32{"half": {0}, "four": {0}, "none": {0}, "crit": {0}}, w.running())
		one := w.at("one").Status
		require.Equal(t, "Failed Preempting: Preempted in order to admit critical pod", string(one.Phase)+" "+one.Reason+": "+one.Message)
		disrupted := podfacts.Condition(one.Conditions, v1.DisruptionTarget)
		require.NotNil(t, disrupted)
		require.Equal(t, "True TerminationByKubelet: Pod was preempted by Kubelet to accommodate a critical pod.", string(disrupted.Status)+" "+disrupted.Reason+": "+disrupted.Message)
		require.Contains(t, w.events("one"), "Preempting")
		require.Equal(t, "OutOfcpu", w.at("late").Status.Reason, "the place was not for this one")

		w.api.Put(wanting("huge", "9", withPriority(ofTheSystem)))
		w.sleep(10 * time.Second)
		require.Equal(t, "UnexpectedAdmissionError", w.at("huge").Status.Reason)
		require.Len(t, w.running(), 4, "nobody goes for one that will not fit anyhow")
	})
}

// Whoever was refused is counted, once, by the reason; and the place that is kept for a
// critical pod while others end for it is not given to one that runs and grows.
func TestAPlaceIsKeptFromWhoGrows(t *testing.T) {
	slow := func(ctx context.Context, p *fake.Process) int {
		p.Signals()
		<-ctx.Done()
		return 0
	}
	stubborn := func(pod *v1.Pod) { pod.Spec.TerminationGracePeriodSeconds = new(int64(20)) }
	inWorld(t, fake.Config{Programs: fake.ByContainer(map[string]fake.Program{"slow": slow}, fake.SleepUntilStopped)}, func(w *world) {
		w.api = apitest.Start(w.t)
		w.node("3500m")
		grows := wanting("grows", "1500m")
		grows.Generation = 1
		w.api.Put(grows)
		w.api.Put(wanting("slow", "1", stubborn))
		w.start()
		w.sleep(5 * time.Second)
		w.api.Put(wanting("crit", "2", withPriority(ofTheSystem)))
		w.sleep(5 * time.Second)
		require.Contains(t, w.running(), "slow", "it has 20 s to end")
		w.wants("grows", milli(2000))
		w.sleep(5 * time.Second)
		require.NotNil(t, w.resizeCondition("grows", v1.PodResizePending), "what slow leaves is for crit")
		w.sleep(20 * time.Second)
		require.Contains(t, w.running(), "crit")
		require.NotNil(t, w.resizeCondition("grows", v1.PodResizePending))
		w.api.Put(wanting("late", "1"))
		w.sleep(5 * time.Second)
		require.Equal(t, "OutOfcpu", w.at("late").Status.Reason)
		metrics := httptest.NewRecorder()
		w.agent.cfg.Metrics.Handler().ServeHTTP(metrics, httptest.NewRequest(http.MethodGet, "/", nil))
		require.Contains(t, metrics.Body.String(), "\nkubelet_admission_rejections_total{reason=\"OutOfcpu\"} 1\n")

		w.remove("crit")
		w.sleep(40 * time.Second)
		w.requireCPU("grows", "grows", 2000)
	})
}

// After a restart those come first that were admitted before; of each kind critical ones,
// then by priority, then by age.
func TestOrder(t *testing.T) {
	inWorld(t, fake.Config{Programs: fake.ByContainer(nil, fake.SleepUntilStopped)}, func(w *world) {
		w.api = apitest.Start(w.t)
		w.node("9")
		w.api.Put(wanting("was", "1"))
		w.api.Put(wanting("was-critical", "1", withPriority(ofTheSystem)))
		w.start()
		w.sleep(5 * time.Second)
		at := func(second int64) func(*v1.Pod) {
			return func(pod *v1.Pod) { pod.CreationTimestamp = metav1.Unix(second, 0) }
		}
		static := func(pod *v1.Pod) { pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"} }
		list := []*v1.Pod{
			wanting("young", "1", at(9)), wanting("old", "1", at(1)), wanting("high", "1", withPriority(1000), at(9)), wanting("manifest", "1", static, at(9)),
			wanting("critical", "1", withPriority(ofTheSystem), at(9)), w.at("was"), w.at("was-critical"),
		}
		for _, pod := range list[:5] {
			pod.UID = types.UID(pod.Name)
		}
		require.NoError(t, w.agent.order(list))
		var names []string
		for _, pod := range list {
			names = append(names, pod.Name)
		}
		require.Equal(t, []string{"was-critical", "was", "critical", "manifest", "high", "old", "young"}, names)
	})
}
