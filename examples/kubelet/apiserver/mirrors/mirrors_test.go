package mirrors

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is a manager with a server and, after register, a Node.
type scene struct {
	*Manager
	t      *testing.T
	server *apitest.Server
	node   atomic.Pointer[v1.Node]
}

func newScene(t *testing.T) *scene {
	s := &scene{t: t, server: apitest.Start(t)}
	var err error
	s.Manager, err = New(Config{Client: s.server.Client(t), Node: s.node.Load})
	require.NoError(t, err)
	t.Cleanup(func() { require.ErrorIs(t, s.Run(t.Context()), ErrAlreadyRun) })
	apitest.Run(t, s.Run)
	return s
}

func (s *scene) register(uid types.UID) {
	s.node.Store(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker", UID: uid}})
}

func static(name, hash string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: name, UID: types.UID(hash), Labels: map[string]string{"app": "x"},
			Annotations: map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": hash},
		},
		Spec:   v1.PodSpec{NodeName: "worker", Containers: []v1.Container{{Name: "app", Image: "image"}}},
		Status: v1.PodStatus{Phase: v1.PodRunning},
	}
}

func (s *scene) mirror(name string) *v1.Pod {
	if pod, ok := apitest.Find(s.server, static(name, "")); ok {
		return pod
	}
	return nil
}

func (s *scene) sync(pod *v1.Pod) {
	s.Sync(pod, s.mirror(pod.Name))
	time.Sleep(10 * time.Millisecond)
}

// A mirror is the static pod with its hash, owned by the Node. It is created once, again after a
// deletion (N8), and replaced for another manifest (N9). TestDecide has the other reasons.
func TestMirrorOfAStaticPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.register("node-1")
		pod := static("web", "h1")
		s.sync(pod)
		first := s.mirror("web")
		require.NotNil(t, first)
		require.Equal(t, "h1", first.Annotations["kubernetes.io/config.mirror"])
		require.Equal(t, "h1", first.Annotations["kubernetes.io/config.hash"])
		require.Equal(t, pod.Labels, first.Labels)
		require.Equal(t, pod.Spec, first.Spec)
		require.NotEqual(t, pod.UID, first.UID)
		require.Empty(t, first.Status.Phase)
		yes := true
		require.Equal(t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "worker", UID: "node-1", Controller: &yes}}, first.OwnerReferences)
		require.NotContains(t, pod.Annotations, "kubernetes.io/config.mirror")

		calls := len(s.server.Calls())
		for range 10 {
			s.sync(pod)
		}
		require.Len(t, s.server.Calls(), calls)
		s.Sync(pod, nil) // the source has not seen the mirror yet
		time.Sleep(time.Second)
		require.Equal(t, first.UID, s.mirror("web").UID)

		s.server.Remove(first)
		s.sync(pod)
		second := s.mirror("web")
		require.NotNil(t, second)
		require.NotEqual(t, first.UID, second.UID)

		pod = static("web", "h2")
		s.sync(pod)
		third := s.mirror("web")
		require.Equal(t, "h2", third.Annotations["kubernetes.io/config.mirror"])
		require.NotEqual(t, second.UID, third.UID)
		for _, c := range s.server.Calls() {
			if c.Verb == "delete" {
				require.Contains(t, string(c.Body), string("0000-4000-8000"), "each names a UID")
			}
		}
	})
}

// Status returns the status of a mirror from another agent of this node. Mirrors of other manifests
// or nodes do not count. A server that does not respond does not block it.
func TestStatusOfAMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.register("node-1")
		pod := static("web", "h1")
		require.Nil(t, s.Status(t.Context(), pod))
		s.sync(pod)
		mirror := s.mirror("web")
		mirror.Status = v1.PodStatus{Phase: v1.PodRunning, HostIP: "10.0.0.1"}
		s.server.Put(mirror)
		require.Equal(t, &mirror.Status, s.Status(t.Context(), pod))
		require.Nil(t, s.Status(t.Context(), static("web", "h2")))
		plain := pod.DeepCopy()
		plain.Annotations = nil
		require.Nil(t, s.Status(t.Context(), plain))
		elsewhere := pod.DeepCopy()
		elsewhere.Spec.NodeName = "another"
		require.Nil(t, s.Status(t.Context(), elsewhere))

		stopped, stop := context.WithCancel(t.Context())
		stop()
		require.Nil(t, s.Status(stopped, pod))
	})
}

// All mirrors are created as soon as there is a Node, and none before.
func TestMirrorsFollowRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		for i := range 30 {
			s.sync(static(fmt.Sprint("web-", i), fmt.Sprint("h", i)))
		}
		time.Sleep(time.Hour)
		require.Empty(t, s.server.Calls())
		s.register("node-1")
		s.Wake()
		time.Sleep(time.Millisecond)
		require.Len(t, apitest.All[*v1.Pod](s.server), 30)
		deleting := s.node.Load().DeepCopy()
		now := metav1.Now()
		deleting.DeletionTimestamp = &now
		s.node.Store(deleting)
		s.sync(static("late", "h"))
		time.Sleep(time.Minute)
		require.Nil(t, s.mirror("late"))
	})
}

// A static pod that ends gets no new mirror. Leftover mirrors are deleted by UID.
func TestLeftovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.register("node-1")
		a, b := static("a", "ha"), static("b", "hb")
		s.sync(a)
		s.sync(b)
		left := s.mirror("a")
		s.clean(func(uid types.UID) bool { return uid == b.UID }, []*v1.Pod{left})
		time.Sleep(time.Millisecond)
		require.Nil(t, s.mirror("a"))
		require.NotNil(t, s.mirror("b"))
		s.mu.Lock()
		require.Len(t, s.wants, 1)
		s.mu.Unlock()
		other := left.DeepCopy()
		other.UID = ""
		s.server.Put(other)
		s.clean(func(uid types.UID) bool { return uid == b.UID }, []*v1.Pod{left})
		time.Sleep(time.Millisecond)
		require.NotNil(t, s.mirror("a"), "a mirror pod with another UID stays")
	})
}

// A pod with the mirror's name that is not a mirror of this node is never changed.
func TestForeignPodsStayUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.register("node-1")
		stranger := static("web", "h1")
		stranger.Annotations = nil
		stranger.UID = ""
		uid := s.server.Put(stranger).GetUID()
		s.sync(static("web", "h1"))
		s.Sync(static("web", "h1"), nil)
		time.Sleep(time.Hour)
		require.Equal(t, uid, s.mirror("web").UID)
		require.Zero(t, s.server.CountCalls("delete", "pods"))
		s.server.Remove(stranger)
		time.Sleep(time.Minute)
		s.sync(static("web", "h1"))
		time.Sleep(time.Minute)
		require.Equal(t, "h1", s.mirror("web").Annotations["kubernetes.io/config.mirror"])
	})
}

// An unavailable server blocks no call. It gets the mirrors once when it is back.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.register("node-1")
		s.server.SetDown(true)
		began := time.Now()
		for i := range 20 {
			s.Sync(static(fmt.Sprint("web-", i), "h1"), nil)
		}
		require.Zero(t, time.Since(began))
		time.Sleep(3 * time.Hour)
		s.Sync(static("web-0", "h2"), nil)
		s.server.SetDown(false)
		time.Sleep(time.Minute)
		require.Len(t, apitest.All[*v1.Pod](s.server), 20)
		require.Equal(t, "h2", s.mirror("web-0").Annotations["kubernetes.io/config.mirror"])
		require.Equal(t, 20, s.server.CountCalls("create", "pods"))
	})
}

// Other pods have no mirrors.
func TestOtherPodsHaveNoMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.register("node-1")
		api := static("api", "h")
		api.Annotations["kubernetes.io/config.source"] = "api"
		unhashed := static("unhashed", "")
		s.Sync(nil, nil)
		s.sync(api)
		s.sync(unhashed)
		time.Sleep(time.Minute)
		require.Empty(t, s.server.Calls())
	})
}

// The action depends on the pod, on the pod of its name at the server, and on the Node.
func TestDecide(t *testing.T) {
	pod, node := static("web", "h1"), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker", UID: "n"}}
	fit := mirrorOf(pod, node)
	change := func(f func(*v1.Pod)) *v1.Pod {
		p := fit.DeepCopy()
		f(p)
		return p
	}
	now := metav1.Now()
	leaving := node.DeepCopy()
	leaving.DeletionTimestamp = &now
	for name, x := range map[string]struct {
		there *v1.Pod
		node  *v1.Node
		want  step
	}{
		"none":                      {nil, node, create},
		"it fits":                   {fit, node, nothing},
		"no node":                   {nil, nil, wait},
		"the node is being deleted": {nil, leaving, wait},
		"a node without UID":        {nil, &v1.Node{}, wait},
		"another hash":              {change(func(p *v1.Pod) { p.Annotations["kubernetes.io/config.mirror"] = "h0" }), node, replace},
		"is being deleted":          {change(func(p *v1.Pod) { p.DeletionTimestamp = &now }), node, replace},
		"another node object":       {change(func(p *v1.Pod) { p.OwnerReferences[0].UID = "before" }), node, replace},
		"not controlled":            {change(func(p *v1.Pod) { p.OwnerReferences[0].Controller = nil }), node, replace},
		"without owner":             {change(func(p *v1.Pod) { p.OwnerReferences = nil }), node, replace},
		"no mirror":                 {change(func(p *v1.Pod) { delete(p.Annotations, "kubernetes.io/config.mirror") }), node, refuse},
		"of another node":           {change(func(p *v1.Pod) { p.Spec.NodeName = "another" }), node, refuse},
		"no mirror, no node":        {change(func(p *v1.Pod) { p.Annotations = nil }), nil, refuse},
	} {
		require.Equal(t, x.want.String(), decide(pod, x.there, x.node).String(), name)
	}
}

func TestConfigIsChecked(t *testing.T) {
	_, err := New(Config{})
	require.EqualError(t, err, "mirrors: Config.Client is required\nmirrors: Config.Node is required")
}
