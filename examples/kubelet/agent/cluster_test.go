package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	"github.com/podwright/podwright/internal/podfacts"
	nodestatus "github.com/podwright/podwright/status/node"
)

func inCluster(t *testing.T, test func(*world)) { inClusterOf(t, fake.Config{}, test) }

func inClusterOf(t *testing.T, cfg fake.Config, test func(*world)) {
	inWorld(t, cfg, func(w *world) {
		w.api = apitest.Start(w.t)
		test(w)
	})
}

// bound returns a pod that the scheduler has bound to this node.
func bound(name string, containers ...string) *v1.Pod {
	pod := podOf("", v1.RestartPolicyAlways, containers...)
	pod.Name, pod.Spec.NodeName = name, "n"
	return pod
}

func (w *world) put(pods ...*v1.Pod) {
	for _, pod := range pods {
		w.api.Put(pod)
	}
}

func (w *world) at(name string) *v1.Pod {
	pod, ok := apitest.Find(w.api, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
	if !ok {
		return nil
	}
	return pod
}

// ended describes the end of a pod, with its disruption condition if there is one.
func (w *world) ended(name string) string {
	s := w.at(name).Status
	text := fmt.Sprintf("%s %s: %s", s.Phase, s.Reason, s.Message)
	if c := podfacts.Condition(s.Conditions, v1.DisruptionTarget); c != nil {
		text += fmt.Sprintf(" (%s %s: %s)", c.Status, c.Reason, c.Message)
	}
	return text
}

// remove deletes a pod as kubectl does: the object stays until the node has ended the pod.
func (w *world) remove(name string) { w.removeAt(name, metav1.Now(), 2) }

func (w *world) removeAt(name string, at metav1.Time, grace int64) {
	pod, end := w.at(name), metav1.NewTime(at.Add(time.Duration(grace)*time.Second))
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &end, &grace
	w.put(pod)
}

func (w *world) events(object string) []string {
	reasons := map[string]bool{}
	for _, e := range apitest.All[*v1.Event](w.api) {
		if e.InvolvedObject.Name == object {
			reasons[e.Reason] = true
		}
	}
	return slices.Sorted(maps.Keys(reasons))
}

func (w *world) nodeAt() *v1.Node {
	w.t.Helper()
	n, ok := apitest.Find(w.api, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	require.True(w.t, ok, "registered")
	return n
}

func (w *world) editNode(change func(*v1.Node)) {
	n := w.nodeAt()
	change(n)
	w.api.Put(n)
	w.Sleep(0)
}

func (w *world) nodeCondition(kind v1.NodeConditionType) string {
	c := nodestatus.Condition(&w.nodeAt().Status, kind)
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// A pod bound to the node runs, and its status is at the API server. A deleted pod disappears there
// once it has ended.
func TestAPodOfTheAPIServer(t *testing.T) {
	inCluster(t, func(w *world) {
		w.startFor(3 * time.Second)
		require.Equal(t, "fake://1.0.0", w.nodeAt().Status.NodeInfo.ContainerRuntimeVersion)
		_, ok := apitest.Find(w.api, &coordv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: "n"}})
		require.True(t, ok, "leased")

		elsewhere := bound("b", "x")
		elsewhere.Spec.NodeName = "m"
		w.put(elsewhere, bound("a", "c"))
		w.Sleep(3 * time.Second)
		require.Equal(t, map[string][]uint32{"c": {0}}, w.Running())
		status := w.at("a").Status
		require.Equal(t, v1.PodRunning, status.Phase)
		require.NotEmpty(t, status.ContainerStatuses[0].ContainerID)
		require.Subset(t, w.events("a"), []string{"Created", "Started"})

		w.remove("a")
		w.Sleep(5 * time.Second)
		require.Nil(t, w.at("a"), "the agent deleted it")
		require.NotNil(t, w.at("b"))
		w.Sleep(5 * time.Second)
		w.requireNothingLeft()
	})
}

// N9: a static pod has a mirror pod at the API server. A deleted mirror is created again, and the
// pod is not affected.
func TestMirrorOfAStaticPod(t *testing.T) {
	inCluster(t, func(w *world) {
		pod := podOf("1", v1.RestartPolicyAlways, "c")
		pod.Name, pod.Spec.NodeName = "s", "n"
		pod.Annotations = map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "h1"}
		w.set(pod)
		w.startFor(5 * time.Second)
		mirror := w.at("s")
		require.NotNil(t, mirror)
		require.Equal(t, "h1", mirror.Annotations["kubernetes.io/config.mirror"])
		require.Equal(t, v1.PodRunning, mirror.Status.Phase, "the mirror has the static pod's status")
		w.api.Remove(mirror)
		w.Sleep(25 * time.Second)
		again := w.at("s")
		require.NotNil(t, again)
		require.NotEqual(t, mirror.UID, again.UID)
		require.Equal(t, v1.PodRunning, again.Status.Phase)
		require.Equal(t, map[string][]uint32{"c": {0}}, w.Running())
		w.set()
		w.Sleep(10 * time.Second)
		require.Nil(t, w.at("s"))
		require.Empty(t, w.Running())
	})
}

// A pod that references a missing object waits, and runs once the object exists.
func TestPodsThatCannotRunYet(t *testing.T) {
	inCluster(t, func(w *world) {
		waits, class := bound("waits", "c"), bound("class", "e")
		waits.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "late"}}}}
		class.Spec.RuntimeClassName = new("none")
		w.put(waits, class)
		w.startFor(10 * time.Second)
		require.Empty(t, w.Running())
		require.Equal(t, v1.PodPending, w.at("waits").Status.Phase)
		require.Equal(t, "CreateContainerConfigError", w.at("waits").Status.ContainerStatuses[0].State.Waiting.Reason)
		require.Contains(t, w.events("class"), "FailedCreatePodSandBox")
		w.api.Put(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "late"}, Data: map[string]string{"A": "1"}})
		w.Sleep(5 * time.Second)
		require.Equal(t, map[string][]uint32{"c": {0}}, w.Running())
	})
}

// A node without a responding runtime registers after 10 s, and reports the reason why it is not ready.
func TestNodeWithoutARuntime(t *testing.T) {
	inCluster(t, func(w *world) {
		cfg := configOf(w.dir, noRuntime)
		cfg.Flags.Kubeconfig, cfg.DialAPI = w.api.Kubeconfig, w.api.Dial
		cfg.Flags.NodeIP = hostIPs(w.t)
		require.NoError(t, cfg.complete())
		require.NoError(t, os.MkdirAll(cfg.Flags.RootDir, 0o700))
		in, err := newInputs(&cfg, &connected{err: errors.New("no such socket")})
		require.NoError(t, err)
		apitest.Run(w.t, func(ctx context.Context) error {
			return in.runWith(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil })
		})
		w.Sleep(11 * time.Second)
		require.Regexp(t, "^False .*container runtime: no such socket", w.nodeCondition(v1.NodeReady))
	})
}

// An agent with an unusable kubeconfig does not start.
func TestBadKubeconfig(t *testing.T) {
	cfg := configOf(t.TempDir(), noRuntime)
	cfg.Flags.Kubeconfig = "/does/not/exist"
	require.NoError(t, cfg.complete())
	_, err := newInputs(&cfg, new(connected))
	require.ErrorContains(t, err, "kubeconfig /does/not/exist")
}

// A pod that requests more of an extended resource than the Node has left fails with the resource's
// name, also beside pods of an earlier agent. Without the resource at the Node, pods wait, with its
// name.
func TestExtendedResources(t *testing.T) {
	inCluster(t, func(w *world) {
		w.startFor(3 * time.Second)
		w.editNode(func(n *v1.Node) { n.Status.Capacity["example.com/dongle"] = resource.MustParse("2") })
		w.Sleep(20 * time.Second)
		require.Contains(t, w.nodeAt().Status.Allocatable, v1.ResourceName("example.com/dongle"))
		ask := func(pod string, name v1.ResourceName, count string) {
			p := bound(pod, "of-"+pod)
			list := v1.ResourceList{name: resource.MustParse(count)}
			p.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: list, Requests: list}
			w.put(p)
			w.Sleep(3 * time.Second)
		}
		ask("a", "example.com/dongle", "1")
		w.stop()
		w.startFor(3 * time.Second)
		ask("b", "example.com/dongle", "2")
		ask("c", "example.com/dongle", "1")
		ask("d", "example.com/unknown", "1")
		require.Contains(t, w.ended("b"), "Failed OutOfexample.com/dongle: ")
		require.Contains(t, w.events("b"), "OutOfexample.com/dongle")
		require.Empty(t, w.Running(), "no plugin provides the resource")
		for _, pod := range []string{"a", "c", "d"} {
			waiting := w.at(pod).Status.ContainerStatuses[0].State.Waiting
			require.Equal(t, "CreateContainerConfigError", waiting.Reason)
			require.Contains(t, waiting.Message, `this agent does not allocate "example.com/`)
		}
	})
}

// A terminal status written by another client ends the pod. Other foreign statuses are overwritten
// [status/writer].
func TestForeignTerminalStatusEndsPod(t *testing.T) {
	inCluster(t, func(w *world) {
		w.put(bound("a", "c"))
		w.startFor(10 * time.Second)
		ended := w.at("a")
		ended.Status.Phase, ended.Status.Reason = v1.PodFailed, "ByHand"
		w.put(ended)
		w.Sleep(5 * time.Second)
		require.Empty(t, w.Running())
		require.Equal(t, v1.PodFailed, w.at("a").Status.Phase)
		require.NotNil(t, w.at("a").Status.ContainerStatuses[0].State.Terminated)
	})
}
