package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/certificates"
	"github.com/podwright/podwright/examples/kubelet/server/auth"
)

const rbac = "/apis/rbac.authorization.k8s.io/v1/"

// post creates an object of a kind that the agent does not use, and removes it at the end of the
// test.
func (p plane) post(t testing.TB, path, body string) {
	cfg, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	require.NoError(t, err)
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(apiserver.Scheme())
	c, err := rest.UnversionedRESTClientFor(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { utilnet.CloseIdleConnectionsFor(c.Client.Transport) })
	require.NoError(t, c.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error())
	_, name, _ := strings.Cut(body, `"name":"`)
	name, _, _ = strings.Cut(name, `"`)
	t.Cleanup(func() {
		require.NoError(t, c.Delete().AbsPath(path+"/"+name).Do(context.WithoutCancel(t.Context())).Error())
	})
}

// grant binds a cluster role to a subject, such as {"kind":"User","name":"jane"}.
func (p plane) grant(t testing.TB, role, subject string) {
	p.post(t, rbac+"clusterrolebindings", fmt.Sprintf(`{"metadata":{"name":"test-%d"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%q},"subjects":[%s]}`,
		time.Now().UnixNano(), role, subject))
}

// allow creates a cluster role for a node's subresource and binds it to a subject.
func (p plane) allow(t testing.TB, verb, subresource, subject string) {
	role := fmt.Sprintf("test-%s-%d", subresource, time.Now().UnixNano())
	p.post(t, rbac+"clusterroles", fmt.Sprintf(`{"metadata":{"name":%q},"rules":[{"apiGroups":[""],"resources":["nodes/%s"],"verbs":[%q]}]}`, role, subresource, verb))
	p.grant(t, role, subject)
}

// clientOf returns an HTTP client with the certificate of a kubeconfig, if it has one.
func clientOf(t testing.TB, kubeconfig string) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	if kubeconfig != "" {
		cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		require.NoError(t, err)
		require.NoError(t, rest.LoadTLSFiles(cfg))
		pair, err := tls.X509KeyPair(cfg.CertData, cfg.KeyData)
		require.NoError(t, err)
		transport.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Transport: transport}
}

// A node's server allows the access that RBAC grants: by certificate, by token of a service account, and
// through the fall-back to proxy (A18, A19).
func TestNodeServerAuthorizesRequests(t *testing.T) {
	n := newPlane(t).node(t)
	unique := fmt.Sprint(time.Now().UnixNano())
	robot, err := n.admin.ServiceAccounts("default").Create(t.Context(), &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot-" + unique}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { deleteObject(t, n.admin.ServiceAccounts("default"), robot.Name) })
	requested, err := n.admin.RequestToken(t.Context(), "default", robot.Name, &authv1.TokenRequest{})
	require.NoError(t, err)
	good := requested.Status.Token
	n.allow(t, "get", "metrics", fmt.Sprintf(`{"kind":"ServiceAccount","namespace":"default","name":%q}`, robot.Name))
	n.allow(t, "get", "pods", fmt.Sprintf(`{"kind":"User","name":"pods-%s"}`, unique))
	n.allow(t, "get", "proxy", fmt.Sprintf(`{"kind":"User","name":"proxy-%s"}`, unique))

	authorities, err := certificates.NewAuthorities(n.CA, nil)
	require.NoError(t, err)
	apitest.Run(t, authorities.Run)
	a, err := auth.New(auth.Config{NodeName: n.name, ClientCAs: authorities.Current, Tokens: auth.Tokens{Enabled: true}, Mode: auth.Webhook, Reviews: n.Client, DeniedTTL: time.Millisecond})
	require.NoError(t, err)
	certFile, keyFile, err := certificates.SelfSigned(t.TempDir(), "127.0.0.1")
	require.NoError(t, err)
	serving, err := certificates.NewServing(certFile, keyFile, nil)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(a.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	server.TLS = certificates.TLS{}.Server(serving.Current, authorities.Current)
	server.StartTLS()
	defer server.Close()

	user := func(name, group string) *http.Client { return clientOf(t, n.UserKubeconfig(t, name, group, time.Hour)) }
	anonymous, admin, pods, proxy := clientOf(t, ""), user("boss", "system:masters"), user("pods-"+unique, ""), user("proxy-"+unique, "")

	status := func(c *http.Client, method, path, token string) int {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		require.NoError(t, err)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := c.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	// The API server's authorizer may lag behind the grants.
	eventually(t, "the grants are effective", func() bool {
		return status(anonymous, "GET", "/metrics", good) == 200 && status(pods, "GET", "/pods", "") == 200 && status(proxy, "GET", "/containerLogs/a/b/c", "") == 200
	})
	for _, x := range []struct {
		user                string
		client              *http.Client
		method, path, token string
		want                int
	}{
		{"anonymous", anonymous, "GET", "/pods", "", 401},
		{"truncated token", anonymous, "GET", "/metrics", good[:len(good)-4], 401},
		{"metrics", anonymous, "GET", "/metrics/cadvisor", good, 200},
		{"metrics", anonymous, "GET", "/exec/a/b/c", good, 403},
		{"pods", pods, "GET", "/runningpods/", "", 200},
		{"proxy", proxy, "GET", "/pods", "", 200},
		{"proxy", proxy, "GET", "/exec/a/b/c", "", 200},
		{"proxy", proxy, "POST", "/exec/a/b/c", "", 403},
		{"admin", admin, "POST", "/exec/a/b/c", "", 200},
	} {
		require.Equal(t, x.want, status(x.client, x.method, x.path, x.token), "%s: %s %s", x.user, x.method, x.path)
	}
}
