package testagent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

// Node is a fake runtime in a bubble, on which agents run one after another.
type Node struct {
	t    *testing.T
	fake *fake.Runtime
}

// NewNode returns a node whose runtime accepts every image. Its Close fails the test if
// programs do not end.
func NewNode(t *testing.T, cfg fake.Config) (*Node, *fake.Runtime) {
	t.Helper()
	cfg.AnyImage = true
	rt, err := fake.New(cfg)
	require.NoError(t, err)
	return &Node{t: t, fake: rt}, rt
}

// Close closes the runtime and waits until the bubble is at rest.
func (n *Node) Close() {
	require.NoError(n.t, n.fake.Close())
	synctest.Wait()
}

// Sleep sleeps for d and waits until the bubble is at rest.
func (n *Node) Sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Containers returns all containers of the runtime.
func (n *Node) Containers() []*runtimeapi.Container {
	list, err := n.fake.ListContainers(n.t.Context(), nil)
	require.NoError(n.t, err)
	return list
}

// Sandboxes returns all sandboxes of the runtime.
func (n *Node) Sandboxes() []*runtimeapi.PodSandbox {
	list, err := n.fake.ListPodSandbox(n.t.Context(), nil)
	require.NoError(n.t, err)
	return list
}

// Running returns the attempts of the running containers by container name.
func (n *Node) Running() map[string][]uint32 {
	out := map[string][]uint32{}
	for _, c := range n.Containers() {
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			out[c.Metadata.Name] = append(out[c.Metadata.Name], c.Metadata.Attempt)
		}
	}
	return out
}

// Pod returns a pod on the host network with a grace period of 2 s.
func Pod(uid types.UID, policy v1.RestartPolicy, containers ...string) *v1.Pod {
	grace := int64(2)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod-" + string(uid), Namespace: "ns", UID: uid},
		Spec:       v1.PodSpec{RestartPolicy: policy, TerminationGracePeriodSeconds: &grace, HostNetwork: true},
	}
	for _, name := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
			Name: name, Image: "busybox:1", ImagePullPolicy: v1.PullIfNotPresent,
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: v1.TerminationMessageReadFile,
		})
	}
	return pod
}

// ExecProbe returns a probe that executes a command each second.
func ExecProbe(command string, failures int32) *v1.Probe {
	return &v1.Probe{
		ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{command}}}, PeriodSeconds: 1, FailureThreshold: failures,
	}
}

// Condition returns the status of a condition, or "" if s is nil or lacks the condition.
func Condition(s *v1.PodStatus, t v1.PodConditionType) v1.ConditionStatus {
	if s != nil {
		for _, c := range s.Conditions {
			if c.Type == t {
				return c.Status
			}
		}
	}
	return ""
}

// Container returns the status of a container. It fails the test if the status is missing.
func Container(t testing.TB, s *v1.PodStatus, name string) v1.ContainerStatus {
	t.Helper()
	if s != nil {
		for _, c := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
			if c.Name == name {
				return c
			}
		}
	}
	t.Fatalf("no status of container %s", name)
	return v1.ContainerStatus{}
}
