package pods_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/apiserver/pods"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/statustest"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/eventsourcetest"
	"github.com/podwright/podwright/syncloop/podsource"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t testing.TB) (*apitest.Server, *apiserver.Client) {
	server := apitest.Start(t)
	return server, server.Client(t)
}

func pod(name, node string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}},
		Spec:       v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "app", Image: "image"}}},
	}
}

// T22, T27: the sink passes the suite of sinks over HTTP.
func TestSink(t *testing.T) {
	for name, newer := range map[string]bool{"as it is": false, "newer server": true} {
		t.Run(name, func(t *testing.T) {
			statustest.Run(t, func(t testing.TB) statustest.Subject {
				server, client := connect(t)
				server.SendUnknownFields(newer)
				sink, err := pods.NewSink(client, "worker")
				require.NoError(t, err)
				fault := func(f func() apitest.Fault) {
					server.SetFault(func(c apitest.Call) apitest.Fault {
						if c.Verb != "patch" {
							return apitest.Fault{}
						}
						return f()
					})
				}
				var hung chan struct{}
				waits := run.NewSignal()
				at := func(namespace, name string) *v1.Pod {
					return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
				}
				return statustest.Subject{
					Sink:   sink,
					Create: func(pod *v1.Pod) *v1.Pod { return server.Put(pod).(*v1.Pod) },
					Pod: func(namespace, name string) *v1.Pod {
						if pod, ok := apitest.Find(server, at(namespace, name)); ok {
							return pod
						}
						return nil
					},
					Change: func(namespace, name string, change func(*v1.PodStatus)) {
						pod, _ := apitest.Find(server, at(namespace, name))
						change(&pod.Status)
						server.Put(pod)
					},
					Remove: func(namespace, name string) { server.Remove(at(namespace, name)) },
					Fail: func(fail bool) {
						server.SetFault(nil)
						if fail {
							fault(func() apitest.Fault { return apitest.Fault{Status: http.StatusInternalServerError} })
						}
					},
					Hang: func(hang bool) {
						if !hang {
							// The request may arrive after the end of its context. A request that was not
							// sent by then never arrives.
							select {
							case <-waits:
							case <-time.After(10 * time.Second):
							}
							close(hung)
							server.SetFault(nil)
							return
						}
						hung = make(chan struct{})
						fault(func() apitest.Fault {
							waits.Wake()
							<-hung
							return apitest.Fault{Status: http.StatusGatewayTimeout}
						})
					},
				}
			})
		})
	}
}

// The patch contains only the UID and the differences.
func TestSinkSendsTheDifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := connect(t)
		p := server.Put(pod("a", "worker"))
		sink, err := pods.NewSink(client, "worker")
		require.NoError(t, err)
		ref := status.Ref{Namespace: "ns", Name: "a", UID: p.GetUID()}
		old := &v1.PodStatus{Phase: v1.PodPending, Message: "m", Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse}}}
		next := old.DeepCopy()
		next.Phase = v1.PodRunning
		_, err = sink.Patch(t.Context(), ref, old, next)
		require.NoError(t, err)
		calls := server.Calls()
		last := calls[len(calls)-1]
		require.Equal(t, "patch pods/status ns/a", last.String())
		require.JSONEq(t, fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"phase":"Running"}}`, p.GetUID()), string(last.Body))
	})
}

// Get returns not found for a missing pod, although a node may not read it, unless the node cannot
// list its pods either.
func TestSinkThatMayNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := connect(t)
		server.SetFault(func(c apitest.Call) apitest.Fault {
			if c.Verb == "get" {
				return apitest.Fault{Status: 403}
			}
			return apitest.Fault{}
		})
		sink, err := pods.NewSink(client, "worker")
		require.NoError(t, err)
		own, other := server.Put(pod("a", "worker")), server.Put(pod("b", "another"))
		got, err := sink.Get(t.Context(), status.Ref{Namespace: "ns", Name: "a", UID: own.GetUID()})
		require.NoError(t, err)
		require.Equal(t, own.GetUID(), got.UID)
		_, err = sink.Get(t.Context(), status.Ref{Namespace: "ns", Name: "b", UID: other.GetUID()})
		require.ErrorIs(t, err, status.ErrNotFound)
		server.SetFault(func(apitest.Call) apitest.Fault { return apitest.Fault{Status: 403} })
		_, err = sink.Get(t.Context(), status.Ref{Namespace: "ns", Name: "b", UID: other.GetUID()})
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		require.NotErrorIs(t, err, status.ErrNotFound)
	})
}

type source struct {
	*pods.Source
	merger *podsource.Merger
	seen   []string
}

func newSource(t testing.TB, client *apiserver.Client) *source {
	s := &source{}
	var err error
	s.merger, err = podsource.NewMerger(podsource.MergerConfig{})
	require.NoError(t, err)
	s.Source, err = pods.NewSource(pods.SourceConfig{Client: client, NodeName: "worker", Merger: s.merger, OnPod: func(p *v1.Pod) { s.seen = append(s.seen, p.Name) }})
	require.NoError(t, err)
	return s
}

func (s *source) start(t testing.TB) {
	apitest.Run(t, func(ctx context.Context) error { return s.Run(ctx, func(syncloop.Event) {}) })
}

func (s *source) names(t testing.TB) map[string]*v1.Pod {
	set, delivered := s.merger.Pods(pods.SourceName)
	if !delivered {
		return nil
	}
	out := map[string]*v1.Pod{}
	for _, p := range set {
		require.Equal(t, "api", p.Annotations["kubernetes.io/config.source"])
		require.Empty(t, p.ManagedFields)
		out[p.Name] = p
	}
	return out
}

func TestSourceKeepsTheContract(t *testing.T) {
	eventsourcetest.Run(t, eventsourcetest.Config{New: func(t testing.TB) eventsourcetest.Subject {
		server, client := connect(t)
		return eventsourcetest.Subject{Source: alone{newSource(t, client), client}, Touch: func() syncloop.Event {
			server.Put(pod("touched", "worker"))
			return syncloop.Event{Kind: syncloop.PodsChanged, Source: pods.SourceName}
		}}
	}})
}

// alone is a source with a client of its own, whose idle connections close with it.
type alone struct {
	syncloop.EventSource
	client *apiserver.Client
}

func (a alone) Run(ctx context.Context, emit func(syncloop.Event)) error {
	defer a.client.CloseConnections()
	return a.EventSource.Run(ctx, emit)
}

// The source delivers complete sets of this node's pods, with one watch.
func TestSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := connect(t)
		server.Put(pod("a", "worker"))
		server.Put(pod("elsewhere", "another"))
		server.Put(pod("unbound", ""))
		s := newSource(t, client)
		require.Equal(t, []string{pods.SourceName}, s.merger.Waiting())
		s.start(t)
		synctest.Wait()
		require.Len(t, s.names(t), 1)
		require.Contains(t, s.names(t), "a")

		server.Put(pod("unbound", "worker")) // the scheduler binds it
		server.Put(pod("b", "worker"))
		synctest.Wait()
		require.Len(t, s.names(t), 3)
		server.Remove(pod("a", ""))
		changed := pod("b", "worker")
		changed.Status.Phase = v1.PodRunning
		server.Put(changed)
		synctest.Wait()
		require.Len(t, s.names(t), 2)
		require.Equal(t, v1.PodRunning, s.names(t)["b"].Status.Phase)
		require.Equal(t, 1, server.Watches())
		require.Equal(t, 1, server.CountCalls("list", "pods"))
		require.Equal(t, []string{"a", "unbound", "b", "b"}, s.seen)
		for _, c := range server.Calls() {
			require.Equal(t, []string{"spec.nodeName=worker"}, c.Query["fieldSelector"])
		}
		require.NoError(t, s.Err())
	})
}

// unselected removes the selector from requests.
type unselected struct{ http.RoundTripper }

func (u unselected) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	query := r.URL.Query()
	query.Del("fieldSelector")
	r.URL.RawQuery = query.Encode()
	return u.RoundTripper.RoundTrip(r)
}

// Pods of other nodes are ignored, also if the server ignores the selector.
func TestSourceIgnoresOtherNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.Start(t)
		client, err := apiserver.New(apiserver.Config{
			Kubeconfig: server.Kubeconfig, Dial: server.Dial, UserAgent: "test/1",
			Wrap: func(next http.RoundTripper) http.RoundTripper { return unselected{next} },
		})
		require.NoError(t, err)
		t.Cleanup(client.CloseConnections)
		server.Put(pod("a", "worker"))
		server.Put(pod("elsewhere", "another"))
		s := newSource(t, client)
		s.start(t)
		synctest.Wait()
		server.Put(pod("unbound", ""))
		synctest.Wait()
		require.Len(t, s.names(t), 1)
		require.Equal(t, []string{"a"}, s.seen)
		server.Put(pod("unbound", "worker"))
		synctest.Wait()
		require.Len(t, s.names(t), 2)
	})
}

// A server that was never reached is not an empty set. An unavailable server leaves the last set. A
// node without pods is an empty set.
func TestSourceAndOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := connect(t)
		server.SetDown(true)
		s := newSource(t, client)
		s.start(t)
		time.Sleep(3 * time.Hour)
		require.Nil(t, s.names(t))
		require.ErrorContains(t, s.Err(), "refused")
		server.SetFault(func(apitest.Call) apitest.Fault { return apitest.Fault{Status: 403} })
		server.SetDown(false)
		time.Sleep(3 * time.Hour)
		require.Nil(t, s.names(t), "without permission to read its pods the source is not ready")
		server.SetFault(nil)
		time.Sleep(8 * time.Second)
		require.NotNil(t, s.names(t))
		require.Empty(t, s.names(t))

		server.Put(pod("a", "worker"))
		synctest.Wait()
		server.SetDown(true)
		server.Put(pod("b", "worker"))
		time.Sleep(3 * time.Hour)
		require.Len(t, s.names(t), 1)
		server.Remove(pod("a", ""))
		server.Forget()
		server.SetDown(false)
		time.Sleep(8 * time.Second)
		require.Len(t, s.names(t), 1)
		require.Contains(t, s.names(t), "b")
	})
}

func TestConfigIsChecked(t *testing.T) {
	_, err := pods.NewSource(pods.SourceConfig{MaxPause: -1})
	require.EqualError(t, err, `pods: SourceConfig.Client is required
pods: SourceConfig.Merger is required
pods: SourceConfig.NodeName is required
pods: SourceConfig.MaxPause is negative: -1ns`)
	_, err = pods.NewSink(nil, "")
	require.EqualError(t, err, "pods: NewSink's client is required\npods: NewSink's nodeName is required")
}
