package e2e

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/apiserver/events"
	"github.com/podwright/podwright/examples/kubelet/apiserver/mirrors"
	"github.com/podwright/podwright/examples/kubelet/apiserver/pods"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/statustest"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

// T22, T27: the sink passes the suite of sinks with the credentials of the pods' node. The server
// refuses only the scheduler's condition of a bound pod; an administrator therefore repeats the
// suite with unbound pods.
func TestSink(t *testing.T) {
	p := newPlane(t)
	p.namespace(t, "statustest")
	n := p.node(t)
	for name, bound := range map[string]bool{"node": true, "administrator": false} {
		client := n.admin
		if bound {
			client = n.Client
		}
		sink, err := pods.NewSink(client, n.name)
		require.NoError(t, err)
		t.Run(name, func(t *testing.T) {
			statustest.Run(t, func(t testing.TB) statustest.Subject { return n.harness(t, sink, bound) })
		})
	}
}

func (n *node) harness(t testing.TB, sink status.Sink, bound bool) statustest.Subject {
	return statustest.Subject{
		Sink: sink,
		Create: func(pod *v1.Pod) *v1.Pod {
			like := n.pod(pod.Name)
			like.Namespace = pod.Namespace
			// The QoS class of the suite's statuses, which never changes.
			like.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1m")}
			if !bound {
				like.Spec.NodeName, like.Spec.SchedulerName = "", "no-scheduler"
			} else {
				n.waitAdmission(t, pod.Namespace, pod.Name, false)
			}
			created := n.create(t, like)
			if bound {
				n.waitAdmission(t, pod.Namespace, pod.Name, true)
			}
			created.Status = pod.Status
			return n.setStatus(t, created)
		},
		Pod: func(namespace, name string) *v1.Pod { return n.podOrNil(t, namespace, name) },
		Change: func(namespace, name string, change func(*v1.PodStatus)) {
			pod := n.podOrNil(t, namespace, name)
			change(&pod.Status)
			if bound && pod.Status.NominatedNodeName != "" {
				t.Skip("the server rejects a nominated node of a bound pod")
			}
			n.setStatus(t, pod)
		},
		Remove: func(namespace, name string) { n.remove(t, namespace, name) },
	}
}

// waitAdmission waits until NodeRestriction has seen the creation or the removal of a pod. It gets
// pods from an informer, and until then rejects a deletion by the node as not found. The Node
// authorizer, which lets a node read only its own pods, receives the events of the same informer.
func (n *node) waitAdmission(t testing.TB, namespace, name string, exists bool) {
	t.Helper()
	eventually(t, "NodeRestriction has seen the change of the pod", func() bool {
		_, err := n.Client.Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		return exists && err == nil || !exists && apierrors.IsForbidden(err)
	})
}

// An event is written, and its repetitions are counted.
func TestEvents(t *testing.T) {
	n := newPlane(t).node(t)
	r, err := events.New(events.Config{Client: n.Client, Component: "kubelet", Host: n.name})
	require.NoError(t, err)
	apitest.Run(t, r.Run)
	pod := n.create(t, n.pod(n.name+"-a"))
	ref := v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, FieldPath: "spec.containers{app}"}
	for range 3 {
		r.Event(ref, v1.EventTypeWarning, "BackOff", "Back-off restarting failed container")
	}
	eventually(t, "one event with count 3", func() bool {
		list, err := n.admin.Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod.Name})
		require.NoError(t, err)
		return slices.ContainsFunc(list.Items, func(e v1.Event) bool {
			return e.Count == 3 && e.Source == v1.EventSource{Component: "kubelet", Host: n.name} && e.Reason == "BackOff"
		})
	})
}

// N8, N9: NodeRestriction lets a node create and delete its mirrors, and the node's source shows
// them.
func TestMirrors(t *testing.T) {
	p := newPlane(t)
	n := p.node(t)
	var nodeObject atomic.Pointer[v1.Node]
	m, err := mirrors.New(mirrors.Config{Client: n.Client, Node: nodeObject.Load})
	require.NoError(t, err)
	apitest.Run(t, m.Run)
	other := p.node(t)
	n.create(t, other.pod(other.name))
	static := n.pod("web-" + n.name)
	static.UID = "hash-1"
	static.Annotations = map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "hash-1", "kubernetes.io/config.seen": "2026-01-02T03:04:05Z"}
	t.Cleanup(func() { n.remove(t, "default", static.Name) })
	hash := func() string {
		if pod := n.podOrNil(t, "default", static.Name); pod != nil {
			return pod.Annotations["kubernetes.io/config.mirror"]
		}
		return ""
	}
	m.Sync(static, nil)
	nodeObject.Store(n.object)
	m.Wake()
	eventually(t, "the mirror is created", func() bool { return hash() == "hash-1" })
	merger, err := podsource.NewMerger(podsource.MergerConfig{})
	require.NoError(t, err)
	source, err := pods.NewSource(pods.SourceConfig{Client: n.Client, NodeName: n.name, Merger: merger})
	require.NoError(t, err)
	apitest.Run(t, func(ctx context.Context) error { return source.Run(ctx, func(syncloop.Event) {}) })
	eventually(t, "the source has the mirror and no pod of another node", func() bool {
		set, _ := merger.Pods(pods.SourceName)
		return len(set) == 1 && set[0].Name == static.Name
	})

	changed := static.DeepCopy()
	changed.UID, changed.Annotations["kubernetes.io/config.hash"] = "hash-2", "hash-2"
	m.Sync(changed, n.podOrNil(t, "default", static.Name))
	eventually(t, "the mirror of the changed pod is created", func() bool { return hash() == "hash-2" })
	// Cleaners run repeatedly. A deletion has no effect before NodeRestriction has seen the new mirror.
	eventually(t, "the mirror is deleted", func() bool {
		mirror := n.podOrNil(t, "default", static.Name)
		if mirror != nil {
			err = m.Cleaner().Clean(t.Context(), &syncloop.Cleanup{LeftoverMirrors: []*v1.Pod{mirror}})
		}
		return mirror == nil || err != nil
	})
	require.NoError(t, err)
}
