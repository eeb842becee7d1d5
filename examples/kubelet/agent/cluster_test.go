package agent

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
)

// inCluster runs a test in a bubble, with a runtime and an API server.
func inCluster(t *testing.T, test func(*world)) {
	inWorld(t, fake.Config{}, func(w *world) {
		w.api = apitest.Start(w.t)
		test(w)
	})
}

// bound is a pod that the scheduler has bound to this node.
func bound(name string, containers ...string) *v1.Pod {
	pod := podOf("", v1.RestartPolicyAlways, containers...)
	pod.Name, pod.Spec.NodeName = name, "n"
	return pod
}

// at is a pod as the API server has it, nil if it does not.
func (w *world) at(name string) *v1.Pod {
	pod, ok := apitest.Find(w.api, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
	if !ok {
		return nil
	}
	return pod
}

// remove deletes a pod as kubectl does: it stays until the node has ended it.
func (w *world) remove(name string) {
	pod, now, grace := w.at(name), metav1.Now(), int64(2)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
	w.api.Put(pod)
}

// events are the reasons of what was told of pods.
func (w *world) events(object string) []string {
	reasons := map[string]bool{}
	for _, e := range apitest.All[*v1.Event](w.api) {
		if e.InvolvedObject.Name == object {
			reasons[e.Reason] = true
		}
	}
	return slices.Sorted(maps.Keys(reasons))
}

// A pod that is bound to the node runs, its status is at the API server, and it goes from
// there once it was deleted and has ended.
func TestAPodOfTheAPIServer(t *testing.T) {
	inCluster(t, func(w *world) {
		w.start()
		w.sleep(3 * time.Second)
		n, ok := apitest.Find(w.api, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		require.True(t, ok, "registered")
		require.Equal(t, "fake://1.0.0", n.Status.NodeInfo.ContainerRuntimeVersion)
		_, ok = apitest.Find(w.api, &coordv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: "n"}})
		require.True(t, ok, "leased")

		elsewhere := bound("b", "x")
		elsewhere.Spec.NodeName = "m"
		w.api.Put(elsewhere)
		w.api.Put(bound("a", "c"))
		w.sleep(3 * time.Second)
		require.Equal(t, map[string][]uint32{"c": {0}}, w.running())
		pod := w.at("a")
		require.Equal(t, v1.PodRunning, pod.Status.Phase)
		require.NotEmpty(t, pod.Status.ContainerStatuses[0].ContainerID)
		require.Subset(t, w.events("a"), []string{"Created", "Started"})

		w.remove("a")
		w.sleep(5 * time.Second)
		require.Nil(t, w.at("a"), "deleted by the agent")
		require.NotNil(t, w.at("b"))
		w.sleep(5 * time.Second)
		w.requireNothingLeft()
	})
}

// N9: a static pod is seen at the API server, comes back there when its mirror is deleted,
// and nothing of it is touched by that.
func TestMirrorOfAStaticPod(t *testing.T) {
	inCluster(t, func(w *world) {
		pod := podOf("1", v1.RestartPolicyAlways, "c")
		pod.Name, pod.Spec.NodeName = "s", "n"
		pod.Annotations = map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "h1"}
		w.set(pod)
		w.start()
		w.sleep(5 * time.Second)
		mirror := w.at("s")
		require.NotNil(t, mirror)
		require.Equal(t, "h1", mirror.Annotations["kubernetes.io/config.mirror"])
		require.Equal(t, v1.PodRunning, mirror.Status.Phase, "its status is that of the static pod")
		running := w.running()
		w.api.Remove(mirror)
		w.sleep(10 * time.Second)
		again := w.at("s")
		require.NotNil(t, again)
		require.NotEqual(t, mirror.UID, again.UID)
		w.sleep(15 * time.Second)
		require.Equal(t, v1.PodRunning, w.at("s").Status.Phase)
		require.Equal(t, running, w.running())
		w.set()
		w.sleep(10 * time.Second)
		require.Nil(t, w.at("s"))
		require.Empty(t, w.running())
	})
}

// An API server that is away harms no pod: they run on over a restart of the agent, what
// dies is started again, and all that has happened is told once afterwards.
func TestOutageOfTheAPIServer(t *testing.T) {
	inCluster(t, func(w *world) {
		w.start()
		w.api.Put(bound("a", "c"))
		w.sleep(5 * time.Second)
		w.api.SetDown(true)
		w.sleep(3 * time.Hour)
		require.Equal(t, map[string][]uint32{"c": {0}}, w.running())
		w.stop()
		w.start()
		w.sleep(2 * time.Hour)
		require.Equal(t, map[string][]uint32{"c": {0}}, w.running(), "a source that was not read is not empty")
		w.remove("a")
		w.api.SetDown(false)
		w.sleep(time.Minute)
		require.Nil(t, w.at("a"))
		require.Empty(t, w.running())
	})
}

// A pod that refers to what is not there waits, and runs once it is; one that asks for what
// the node does not have is refused by name.
func TestPodsThatCannotRunYet(t *testing.T) {
	inCluster(t, func(w *world) {
		w.start()
		waits := bound("waits", "c")
		waits.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "late"}}}}
		refused := bound("refused", "d")
		refused.Spec.NodeSelector = map[string]string{"room": "3"}
		class := bound("class", "e")
		class.Spec.RuntimeClassName = new("none")
		for _, pod := range []*v1.Pod{waits, refused, class} {
			w.api.Put(pod)
		}
		w.sleep(10 * time.Second)
		require.Empty(t, w.running())
		require.Equal(t, v1.PodPending, w.at("waits").Status.Phase)
		require.Equal(t, "CreateContainerConfigError", w.at("waits").Status.ContainerStatuses[0].State.Waiting.Reason)
		require.Equal(t, v1.PodFailed, w.at("refused").Status.Phase)
		require.Equal(t, "NodeAffinity", w.at("refused").Status.Reason)
		require.Contains(t, w.events("class"), "FailedCreatePodSandBox")
		w.api.Put(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "late"}, Data: map[string]string{"A": "1"}})
		w.sleep(5 * time.Second)
		require.Equal(t, map[string][]uint32{"c": {0}}, w.running())
	})
}

// A node whose runtime does not answer is there all the same, and says why it is not ready.
func TestNodeWithoutARuntime(t *testing.T) {
	inCluster(t, func(w *world) {
		cfg := configOf(w.dir, func(context.Context) (*Connection, error) { return nil, errors.New("unused") })
		cfg.Flags.Kubeconfig, cfg.DialAPI = w.api.Kubeconfig, w.api.Dial
		cfg.Flags.NodeIP = []netip.Addr{netip.MustParseAddr(nodeIPs()[0])}
		require.NoError(t, cfg.complete())
		g, err := newGround(cfg, folders{root: cfg.Flags.RootDir}, func() state { return state{err: errors.New("no such socket")} })
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(cfg.Flags.RootDir, 0o700))
		ctx, cancel := context.WithCancel(w.t.Context())
		done := make(chan error, 1)
		go func() {
			done <- g.runWith(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil })
		}()
		w.sleep(5 * time.Second)
		n, ok := apitest.Find(w.api, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		require.True(t, ok)
		i := slices.IndexFunc(n.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == v1.NodeReady })
		require.Equal(t, v1.ConditionFalse, n.Status.Conditions[i].Status)
		require.Contains(t, n.Status.Conditions[i].Message, "container runtime: no such socket")
		cancel()
		require.NoError(t, <-done)
	})
}

// An agent whose kubeconfig cannot be used does not begin.
func TestBadKubeconfig(t *testing.T) {
	cfg := configOf(t.TempDir(), func(context.Context) (*Connection, error) { return nil, errors.New("unused") })
	cfg.Flags.Kubeconfig = "/does/not/exist"
	require.NoError(t, cfg.complete())
	_, err := newGround(cfg, folders{root: t.TempDir()}, noState)
	require.ErrorContains(t, err, "kubeconfig /does/not/exist")
}

// Labels that others gave to the Node count from the start: pods that came here because of
// them are not looked at before the Node was seen.
func TestPodsWaitForTheNode(t *testing.T) {
	inCluster(t, func(w *world) {
		w.start()
		w.sleep(3 * time.Second)
		n, ok := apitest.Find(w.api, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		require.True(t, ok)
		n.Labels["room"] = "3"
		w.api.Put(n)
		w.sleep(3 * time.Second)
		pod := bound("a", "c")
		pod.Spec.NodeSelector = map[string]string{"room": "3"}
		w.api.Put(pod)
		w.sleep(3 * time.Second)
		require.Equal(t, map[string][]uint32{"c": {0}}, w.running())
		w.stop()
		w.api.SetFault(func(c apitest.Call) (f apitest.Fault) {
			if c.Resource == "nodes" {
				f.Delay = 10 * time.Second
			}
			return f
		})
		another := bound("b", "d")
		another.Spec.NodeSelector = pod.Spec.NodeSelector
		w.api.Put(another)
		w.start()
		w.sleep(time.Minute)
		require.Equal(t, v1.PodRunning, w.at("a").Status.Phase)
		require.Equal(t, map[string][]uint32{"c": {0}, "d": {0}}, w.running())
	})
}

// A pod that asks for more of an extended resource than the Node has left fails by its
// name, also beside pods of an agent before; others wait, by its name, for who gives it out.
func TestExtendedResources(t *testing.T) {
	inCluster(t, func(w *world) {
		w.start()
		w.sleep(3 * time.Second)
		n, ok := apitest.Find(w.api, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		require.True(t, ok)
		n.Status.Capacity["example.com/dongle"] = resource.MustParse("2")
		w.api.Put(n)
		w.sleep(20 * time.Second)
		n, _ = apitest.Find(w.api, n)
		require.Contains(t, n.Status.Allocatable, v1.ResourceName("example.com/dongle"))
		ask := func(pod string, name v1.ResourceName, count string) {
			p := bound(pod, "of-"+pod)
			p.Spec.Containers[0].Resources.Limits = v1.ResourceList{name: resource.MustParse(count)}
			p.Spec.Containers[0].Resources.Requests = p.Spec.Containers[0].Resources.Limits
			w.api.Put(p)
			w.sleep(3 * time.Second)
		}
		ask("a", "example.com/dongle", "1")
		w.stop()
		w.start()
		w.sleep(3 * time.Second)
		ask("b", "example.com/dongle", "2")
		ask("c", "example.com/dongle", "1")
		ask("d", "example.com/unknown", "1")
		require.Equal(t, "OutOfexample.com/dongle", w.at("b").Status.Reason)
		require.Equal(t, v1.PodFailed, w.at("b").Status.Phase)
		require.Contains(t, w.events("b"), "OutOfexample.com/dongle")
		require.Empty(t, w.running(), "nobody gives them out")
		for _, pod := range []string{"a", "c", "d"} {
			require.Equal(t, "CreateContainerConfigError", w.at(pod).Status.ContainerStatuses[0].State.Waiting.Reason)
			require.Contains(t, w.at(pod).Status.ContainerStatuses[0].State.Waiting.Message, `nothing that gives out "example.com/`)
		}
	})
}

// What others write into a status is put right, and nothing is done to the pod for it;
// but who writes that a pod has ended, ends it.
func TestStatusFromOutside(t *testing.T) {
	inCluster(t, func(w *world) {
		w.start()
		w.api.Put(bound("a", "c"))
		w.sleep(10 * time.Second)
		was := w.at("a").Status
		for _, phase := range []v1.PodPhase{v1.PodPending, v1.PodUnknown, ""} {
			wrong := w.at("a")
			wrong.Status.Phase, wrong.Status.PodIP, wrong.Status.StartTime = phase, "192.0.2.1", &metav1.Time{Time: time.Now().Add(-time.Hour)}
			wrong.Status.ContainerStatuses, wrong.Status.Conditions = nil, nil
			w.api.Put(wrong)
			w.sleep(15 * time.Second)
			is := w.at("a").Status
			require.Equal(t, []any{was.Phase, was.PodIP, was.StartTime.UTC(), was.ContainerStatuses}, []any{is.Phase, is.PodIP, is.StartTime.UTC(), is.ContainerStatuses})
			require.Len(t, is.Conditions, len(was.Conditions))
			require.Equal(t, map[string][]uint32{"c": {0}}, w.running())
		}
		ended := w.at("a")
		ended.Status.Phase, ended.Status.Reason = v1.PodFailed, "ByHand"
		w.api.Put(ended)
		w.sleep(5 * time.Second)
		require.Empty(t, w.running())
		require.Equal(t, v1.PodFailed, w.at("a").Status.Phase)
		require.NotNil(t, w.at("a").Status.ContainerStatuses[0].State.Terminated)
	})
}
