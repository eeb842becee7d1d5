package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/certificates"
	"github.com/podwright/podwright/examples/kubelet/server/auth"
)

// secured is a kubelet API as the agent serves it: over TLS, behind certificates, and
// TokenReviews and SubjectAccessReviews of an API server.
type secured struct {
	address   string
	authority *apitest.Authority
}

// newSecured lets in whom may allows: a user, a verb, a subresource.
func newSecured(t *testing.T, h http.Handler, tokens map[string]authv1.TokenReviewStatus, may func(user, verb, subresource string) bool) *secured {
	t.Helper()
	upstream := apitest.Start(t)
	upstream.SetReviews(func(s authv1.TokenReviewSpec) authv1.TokenReviewStatus { return tokens[s.Token] },
		func(s authzv1.SubjectAccessReviewSpec) authzv1.SubjectAccessReviewStatus {
			a := s.ResourceAttributes
			named := a.Resource == "nodes" && a.Name == "n" && a.Group == ""
			return authzv1.SubjectAccessReviewStatus{Allowed: named && may(s.User, a.Verb, a.Subresource)}
		})
	client, err := apiserver.New(apiserver.Config{Kubeconfig: upstream.Kubeconfig, Dial: upstream.Dial, UserAgent: "test/1", Limits: apiserver.Limits{QPS: -1}})
	require.NoError(t, err)
	t.Cleanup(client.CloseConnections)
	s := &secured{authority: apitest.NewAuthority(t)}
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(s.authority.PEM))
	authorities := func() *x509.CertPool { return pool }
	door, err := auth.New(auth.Config{NodeName: "n", ClientCAs: authorities, Tokens: auth.Tokens{Enabled: true}, Mode: auth.Webhook, Reviews: client})
	require.NoError(t, err)
	own := s.certificate(t, s.authority, "n", time.Hour)
	settings, err := certificates.ParseTLS("", nil, nil)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.address = l.Addr().String()
	ended := make(chan error, 1)
	go func() {
		ended <- ServeAPI(t.Context(), l, settings.Server(func() *tls.Certificate { return own }, authorities), door.Handler(h), slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() { require.NoError(t, <-ended) }) // t.Context has ended by then
	return s
}

func (s *secured) certificate(t *testing.T, of *apitest.Authority, name string, left time.Duration) *tls.Certificate {
	t.Helper()
	cert, err := tls.X509KeyPair(of.Issue(name, time.Now().Add(left)))
	require.NoError(t, err)
	cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0])
	require.NoError(t, err)
	return &cert
}

// client shows a certificate, unless that is nil.
func (s *secured) client(t *testing.T, shown *tls.Certificate) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(s.authority.PEM))
	settings := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
	if shown != nil { // whatever authorities the server asks for
		settings.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shown, nil }
	}
	transport := &http.Transport{TLSClientConfig: settings, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// endpoint is a path, what is asked for with it, and what the methods answer that it has.
type endpoint struct {
	path         string
	subresources []string
	answers      map[string]int
}

func endpoints() []endpoint {
	get := func(code int) map[string]int { return map[string]int{"GET": code, "HEAD": code} }
	all := func(code int) map[string]int {
		out := map[string]int{}
		for _, method := range methods {
			out[method] = code
		}
		return out
	}
	// No session is begun without an upgrade: 400 is the handler's own answer.
	session := map[string]int{"GET": 400, "HEAD": 400, "POST": 400}
	proxy := []string{"proxy"}
	pods, healthz, configz, stats, metrics := []string{"pods", "proxy"}, []string{"healthz", "proxy"}, []string{"configz", "proxy"}, []string{"stats"}, []string{"metrics"}
	return []endpoint{
		{"/healthz", healthz, get(200)},
		{"/healthz/syncloop", healthz, get(200)},
		{"/healthz/nothing", healthz, get(404)},
		{"/pods", pods, get(200)},
		{"/pods/", pods, get(200)},
		{"/runningpods/", pods, get(200)},
		{"/stats/summary", stats, get(200)},
		{"/metrics", metrics, get(200)},
		{"/metrics/cadvisor", metrics, get(200)},
		{"/metrics/resource", metrics, get(200)},
		{"/metrics/probes", metrics, get(200)},
		{"/metrics/slis", metrics, get(200)},
		{"/metrics/nothing", metrics, all(404)},
		{"/run/ns/p/c?cmd=ls", proxy, map[string]int{"POST": 200}},
		{"/run/ns/p/uid/c?cmd=ls", proxy, map[string]int{"POST": 200}},
		{"/exec/ns/p/c?command=ls&output=1", proxy, session},
		{"/exec/ns/p/uid/c?command=ls&output=1", proxy, session},
		{"/attach/ns/p/c?output=1", proxy, session},
		{"/attach/ns/p/uid/c?output=1", proxy, session},
		{"/portForward/ns/p?port=80", proxy, session},
		{"/portForward/ns/p/uid", proxy, session},
		{"/containerLogs/ns/p/c?tailLines=1", proxy, get(200)},
		{"/configz", configz, get(200)},
		{"/flagz", []string{"configz"}, get(200)},
		{"/statusz", []string{"statusz"}, get(200)},
		{"/statusz/pods", []string{"statusz"}, get(200)},
		{"/statusz/pods/default/a", []string{"statusz"}, get(200)},
		{"/checkpoint/ns/p/c", []string{"checkpoint"}, map[string]int{"POST": 200}},
		{"/logs/", []string{"log"}, get(200)},
		{"/logs/a.log", []string{"log"}, get(200)},
		{"/debug/pprof/cmdline", proxy, get(200)},
		{"/debug/flags/v", proxy, map[string]int{"PUT": 200}},
		{"/", proxy, get(302)},
		{"/nothing", proxy, all(404)},
		{"/podsx", proxy, all(404)},
	}
}

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

var verbOf = map[string]string{"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

// A18, A19 and all of their kind: every client at every path with every method.
func TestWhoMayWhat(t *testing.T) {
	tokens := map[string]authv1.TokenReviewStatus{
		"account":   {Authenticated: true, User: authv1.UserInfo{Username: "system:serviceaccount:ns:all", Groups: []string{"system:serviceaccounts"}}},
		"powerless": {Authenticated: true, User: authv1.UserInfo{Username: "system:serviceaccount:ns:none"}},
		"expired":   {Error: "[invalid bearer token, token has expired]"},
		"other":     {Error: "token audiences do not match"},
	}
	everything := func(string, string) bool { return true }
	rights := map[string]func(verb, subresource string) bool{
		"all":                          everything,
		"system:serviceaccount:ns:all": everything,
		"proxy":                        func(_, subresource string) bool { return subresource == "proxy" },
		"reader":                       func(verb, _ string) bool { return verb == "get" },
		"metrics":                      func(verb, subresource string) bool { return verb == "get" && subresource == "metrics" },
		"fine":                         func(_, subresource string) bool { return subresource != "proxy" && subresource != "" },
	}
	h := api(t, func(c *APIConfig) {
		c.Source, c.Containers = fixed{report: aReport(), checks: []Check{{Name: "syncloop", OK: true}}}, new(reached).handler(t)
	})
	s := newSecured(t, h, tokens, func(user, verb, subresource string) bool {
		may, ok := rights[user]
		return ok && may(verb, subresource)
	})
	named := func(name string) *http.Client { return s.client(t, s.certificate(t, s.authority, name, time.Hour)) }
	nobody, stranger := s.client(t, nil), s.client(t, s.certificate(t, apitest.NewAuthority(t), "all", time.Hour))
	const unknown = "" // 401
	for _, c := range []struct {
		who, user string // user: whose rights count
		client    *http.Client
		header    string
	}{
		{"nobody", unknown, nobody, ""},
		{"a password", unknown, nobody, "Basic YWxsOmFsbA=="},
		{"an empty token", unknown, nobody, "Bearer "},
		{"a rubbish token", unknown, nobody, "Bearer \x80rubbish.rubbish"},
		{"an expired token", unknown, nobody, "Bearer expired"},
		{"a token for somebody else", unknown, nobody, "Bearer other"},
		{"a service account", "system:serviceaccount:ns:all", nobody, "Bearer account"},
		{"a service account without rights", "nobody", nobody, "Bearer powerless"},
		{"the wrong authority", unknown, stranger, ""},
		{"the wrong authority and a good token", "system:serviceaccount:ns:all", stranger, "Bearer account"},
		{"an expired certificate", unknown, s.client(t, s.certificate(t, s.authority, "all", -time.Hour)), ""},
		{"a certificate without rights", "nobody", named("nobody"), ""},
		{"a certificate with all rights", "all", named("all"), ""},
		{"the right to proxy", "proxy", named("proxy"), ""},
		{"the right to get", "reader", named("reader"), ""},
		{"the right to metrics", "metrics", named("metrics"), ""},
		{"all fine-grained rights", "fine", named("fine"), ""},
	} {
		t.Run(c.who, func(t *testing.T) {
			for _, e := range endpoints() {
				for _, method := range methods {
					r, err := http.NewRequest(method, "https://"+s.address+e.path, strings.NewReader("4"))
					require.NoError(t, err)
					if c.header != "" {
						r.Header.Set("Authorization", c.header)
					}
					response, err := c.client.Do(r)
					require.NoError(t, err, "%s %s", method, e.path)
					_, err = io.Copy(io.Discard, response.Body)
					require.NoError(t, err)
					require.NoError(t, response.Body.Close())
					require.Equal(t, wanted(e, method, c.user, rights), response.StatusCode, "%s %s", method, e.path)
				}
			}
		})
	}
}

// wanted is what a path answers to a user: 401 and 403 come before 404 and 405.
func wanted(e endpoint, method, user string, rights map[string]func(verb, subresource string) bool) int {
	if user == "" {
		return http.StatusUnauthorized
	}
	may, ok := rights[user]
	if !ok || !slices.ContainsFunc(e.subresources, func(subresource string) bool { return may(verbOf[method], subresource) }) {
		return http.StatusForbidden
	}
	if code, ok := e.answers[method]; ok {
		return code
	}
	return http.StatusMethodNotAllowed
}

// An API server that fails lets nobody in: 500 for whom a certificate names, 401 for tokens.
func TestNobodyGetsInByAnError(t *testing.T) {
	upstream := apitest.Start(t)
	client, err := apiserver.New(apiserver.Config{Kubeconfig: upstream.Kubeconfig, Dial: upstream.Dial, UserAgent: "test/1"})
	require.NoError(t, err)
	t.Cleanup(client.CloseConnections)
	upstream.SetDown(true)
	door, err := auth.New(auth.Config{NodeName: "n", Tokens: auth.Tokens{Enabled: true}, Anonymous: true, Mode: auth.Webhook, Reviews: client})
	require.NoError(t, err)
	h := door.Handler(api(t, nil))
	for header, code := range map[string]int{"": http.StatusInternalServerError, "Bearer x": http.StatusUnauthorized} {
		r, err := http.NewRequest(http.MethodGet, "/pods", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", header)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, code, w.Code, fmt.Sprint(header, w.Body))
	}
}
