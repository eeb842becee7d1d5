package apiserver_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	authv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/node/nodetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T, change ...func(*apiserver.Config)) (*apitest.Server, *apiserver.Client) {
	server := apitest.Start(t)
	cfg := apiserver.Config{Kubeconfig: server.Kubeconfig, Dial: server.Dial, UserAgent: "test/1"}
	for _, f := range change {
		f(&cfg)
	}
	client, err := apiserver.New(cfg)
	require.NoError(t, err)
	t.Cleanup(client.CloseConnections)
	return server, client
}

func configMap(name, value string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string]string{"key": value}}
}

type wrapped struct {
	http.RoundTripper
	calls *atomic.Int64
}

func (w wrapped) RoundTrip(r *http.Request) (*http.Response, error) {
	w.calls.Add(1)
	return w.RoundTripper.RoundTrip(r)
}

// Wrap sees each call.
func TestWrap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		_, client := connect(t, func(c *apiserver.Config) {
			c.Wrap = func(next http.RoundTripper) http.RoundTripper { return wrapped{next, &calls} }
		})
		_, err := client.ConfigMaps("ns").Create(t.Context(), configMap("a", "1"), metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = client.ConfigMaps("ns").Get(t.Context(), "b", metav1.GetOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
		require.EqualValues(t, 2, calls.Load())
	})
}

// Every verb works with both encodings, and with a server that sends unknown fields.
func TestVerbs(t *testing.T) {
	for name, contentType := range map[string]string{"protobuf": "", "JSON": "application/json"} {
		for _, newer := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server, client := connect(t, func(c *apiserver.Config) { c.ContentType = contentType })
					server.SendUnknownFields(newer)
					ctx, maps := t.Context(), client.ConfigMaps("ns")

					created, err := maps.Create(ctx, configMap("a", "1"), metav1.CreateOptions{})
					require.NoError(t, err)
					require.NotEmpty(t, created.UID)
					_, err = maps.Create(ctx, configMap("a", "1"), metav1.CreateOptions{})
					require.True(t, apierrors.IsAlreadyExists(err), "%v", err)

					w, err := client.ConfigMaps("").Watch(ctx, metav1.ListOptions{ResourceVersion: created.ResourceVersion})
					require.NoError(t, err)
					defer w.Stop()

					created.Data["key"] = "2"
					updated, err := maps.Update(ctx, created, metav1.UpdateOptions{})
					require.NoError(t, err)
					require.Equal(t, "2", updated.Data["key"])
					_, err = maps.Update(ctx, created, metav1.UpdateOptions{})
					require.True(t, apierrors.IsConflict(err), "%v", err)

					patched, err := maps.Patch(ctx, "a", types.StrategicMergePatchType, []byte(`{"data":{"more":"3"}}`), metav1.PatchOptions{})
					require.NoError(t, err)
					require.Equal(t, map[string]string{"key": "2", "more": "3"}, patched.Data)

					got, err := maps.Get(ctx, "a", metav1.GetOptions{})
					require.NoError(t, err)
					require.Equal(t, patched, got)
					list, err := maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=a"})
					require.NoError(t, err)
					require.Len(t, list.Items, 1)
					require.Equal(t, patched.Data, list.Items[0].Data)

					other := types.UID("other")
					err = maps.Delete(ctx, "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
					require.True(t, apierrors.IsConflict(err), "%v", err)
					require.NoError(t, maps.Delete(ctx, "a", metav1.DeleteOptions{}))
					_, err = maps.Get(ctx, "a", metav1.GetOptions{})
					require.True(t, apierrors.IsNotFound(err), "%v", err)

					for _, want := range []string{"MODIFIED 2", "MODIFIED 2", "DELETED 2"} {
						e := <-w.ResultChan()
						m, ok := e.Object.(*v1.ConfigMap)
						require.True(t, ok, "%T", e.Object)
						require.Equal(t, want, string(e.Type)+" "+m.Data["key"])
					}
					wanted := "application/vnd.kubernetes.protobuf"
					if contentType != "" {
						wanted = contentType
					}
					for _, c := range server.Calls() {
						require.Equal(t, "test/1", c.Header.Get("User-Agent"))
						require.Empty(t, c.Header.Get("Authorization"), "no token over an unencrypted connection")
						require.Contains(t, c.Header.Get("Accept"), wanted)
						if c.Verb == "create" || c.Verb == "update" {
							require.Equal(t, wanted, c.Header.Get("Content-Type"))
						}
					}
				})
			})
		}
	}
}

// A node can make the calls about itself.
func TestOwnNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := connect(t)
		own := client.OwnNode()
		nodetest.TestClients(t, nodetest.Clients{Nodes: own, Leases: own, Name: "worker", Delete: func(_ *testing.T, name string) {
			server.Remove(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}})
	})
}

func TestToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := connect(t)
		ctx := t.Context()
		seconds := int64(600)
		request := &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
		_, err := client.RequestToken(ctx, "ns", "robot", request)
		require.True(t, apierrors.IsNotFound(err), "%v", err)
		server.Put(&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot"}})
		token, err := client.RequestToken(ctx, "ns", "robot", request)
		require.NoError(t, err)
		require.Equal(t, "token-1", token.Status.Token)
	})
}

// Reviews of tokens and access return a decision and store nothing.
func TestReviews(t *testing.T) {
	for _, contentType := range []string{"", "application/json"} {
		synctest.Test(t, func(t *testing.T) {
			server, client := connect(t, func(c *apiserver.Config) { c.ContentType = contentType })
			ctx, token := t.Context(), &authv1.TokenReview{Spec: authv1.TokenReviewSpec{Token: "jane's"}}
			access := &authzv1.SubjectAccessReview{Spec: authzv1.SubjectAccessReviewSpec{
				User: "jane", ResourceAttributes: &authzv1.ResourceAttributes{Verb: "get", Resource: "nodes", Subresource: "metrics", Name: "worker"},
			}}
			server.SetReviews(func(s authv1.TokenReviewSpec) authv1.TokenReviewStatus {
				return authv1.TokenReviewStatus{Authenticated: s.Token == "jane's", User: authv1.UserInfo{Username: "jane"}}
			}, func(s authzv1.SubjectAccessReviewSpec) authzv1.SubjectAccessReviewStatus {
				return authzv1.SubjectAccessReviewStatus{Allowed: s.User == "jane" && *s.ResourceAttributes == *access.Spec.ResourceAttributes}
			})
			who, err := client.ReviewToken(ctx, token)
			require.NoError(t, err)
			require.Equal(t, "jane", who.Status.User.Username)
			may, err := client.ReviewAccess(ctx, access)
			require.NoError(t, err)
			require.True(t, may.Status.Allowed)
			server.SetDown(true)
			_, err = client.ReviewAccess(ctx, access)
			require.Error(t, err)
			require.Len(t, server.Calls(), 2)
		})
	}
}

// The client repeats a call that failed with Retry-After. It does not repeat other failed calls.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := connect(t)
		server.Put(configMap("a", "1"))
		left := 3
		server.SetFault(func(apitest.Call) apitest.Fault {
			if left--; left < 0 {
				return apitest.Fault{}
			}
			return apitest.Fault{Status: 429, RetryAfter: 2}
		})
		began := time.Now()
		_, err := client.ConfigMaps("ns").Get(t.Context(), "a", metav1.GetOptions{})
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(began), 6*time.Second)

		server.SetFault(func(apitest.Call) apitest.Fault { return apitest.Fault{Status: 500} })
		n := len(server.Calls())
		_, err = client.ConfigMaps("ns").Get(t.Context(), "a", metav1.GetOptions{})
		require.True(t, apierrors.IsInternalError(err), "%v", err)
		require.Len(t, server.Calls(), n+1)
	})
}

// Calls end at their timeout, also without a response. Heartbeats have a timeout of their own.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := connect(t, func(c *apiserver.Config) { c.Limits = apiserver.Limits{QPS: 10, Burst: 5} })
		heartbeat, err := client.With(apiserver.Limits{QPS: -1, Timeout: 10 * time.Second})
		require.NoError(t, err)
		server.Put(configMap("a", "1"))
		get := func(c *apiserver.Client) error {
			_, err := c.ConfigMaps("ns").Get(t.Context(), "a", metav1.GetOptions{})
			return err
		}
		began := time.Now()
		for range 25 {
			require.NoError(t, get(client))
		}
		require.InDelta(t, 2, time.Since(began).Seconds(), 0.2, "5 at once, 20 more at 10 a second")
		began = time.Now()
		for range 100 {
			require.NoError(t, get(heartbeat))
		}
		require.Zero(t, time.Since(began))

		server.SetFault(func(apitest.Call) apitest.Fault { return apitest.Fault{Delay: time.Hour} })
		for c, limit := range map[*apiserver.Client]time.Duration{heartbeat: 10 * time.Second, client: 30 * time.Second} {
			began = time.Now()
			require.ErrorIs(t, get(c), context.DeadlineExceeded)
			require.InDelta(t, limit.Seconds(), time.Since(began).Seconds(), 0.2)
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	_, err := apiserver.New(apiserver.Config{Period: -1})
	require.EqualError(t, err, `apiserver: Config.Kubeconfig is required
apiserver: Config.UserAgent is required
apiserver: Config.Period is negative: -1ns`)
	_, err = apiserver.New(apiserver.Config{Kubeconfig: apitest.Start(t).Kubeconfig, UserAgent: "x", Limits: apiserver.Limits{Burst: -1}})
	require.EqualError(t, err, "apiserver: Limits.Burst is negative: -1")
	_, err = apiserver.NewFeed(apiserver.FeedConfig[*v1.Pod, *v1.PodList]{})
	require.EqualError(t, err, "apiserver: FeedConfig.Resource is required")
}
