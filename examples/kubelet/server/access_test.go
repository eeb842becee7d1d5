package server

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/certificates"
	"github.com/podwright/podwright/examples/kubelet/server/auth"
)

// secured is a kubelet API with TLS, client certificates, TokenReviews and SubjectAccessReviews, as
// the agent serves it.
type secured struct {
	address   string
	authority *apitest.Authority
}

// newSecured returns an API that grants access by may, with user, verb and subresource.
func newSecured(t *testing.T, h http.Handler, tokens map[string]authv1.TokenReviewStatus, may func(user, verb, subresource string) bool) *secured {
	t.Helper()
	upstream := apitest.Start(t)
	upstream.SetReviews(func(s authv1.TokenReviewSpec) authv1.TokenReviewStatus { return tokens[s.Token] },
		func(s authzv1.SubjectAccessReviewSpec) authzv1.SubjectAccessReviewStatus {
			a := s.ResourceAttributes
			named := a.Resource == "nodes" && a.Name == "n" && a.Group == ""
			return authzv1.SubjectAccessReviewStatus{Allowed: named && may(s.User, a.Verb, a.Subresource)}
		})
	s := &secured{authority: apitest.NewAuthority(t)}
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(s.authority.PEM))
	authorities := func() *x509.CertPool { return pool }
	door, err := auth.New(auth.Config{NodeName: "n", ClientCAs: authorities, Tokens: auth.Tokens{Enabled: true}, Mode: auth.Webhook, Reviews: upstream.Client(t)})
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

// client returns a client with an optional certificate.
func (s *secured) client(t *testing.T, shown *tls.Certificate) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(s.authority.PEM))
	settings := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
	// Show it whatever authorities the server requests.
	if shown != nil {
		settings.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shown, nil }
	}
	transport := &http.Transport{TLSClientConfig: settings, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// endpoint is a path with its attributes and the status codes by method.
type endpoint struct {
	path         string
	subresources []string
	answers      map[string]int
	// reduced is the status code of these methods without debugging handlers and on the read-only
	// port; 0 means the same code.
	reduced int
}

func endpoints() []endpoint {
	get := func(code int) map[string]int { return map[string]int{"GET": code, "HEAD": code} }
	none := map[string]int{}
	for _, method := range methods {
		none[method] = 404
	}
	post := map[string]int{"POST": 200}
	// Sessions need an upgrade of the connection: 400 is the handler's own response.
	session := map[string]int{"GET": 400, "HEAD": 400, "POST": 400}
	proxy, stats, metrics, logs, statusz := []string{"proxy"}, []string{"stats"}, []string{"metrics"}, []string{"log"}, []string{"statusz"}
	pods, healthz, configz := []string{"pods", "proxy"}, []string{"healthz", "proxy"}, []string{"configz", "proxy"}
	return []endpoint{
		{"/healthz", healthz, get(200), 0},
		{"/healthz/syncloop", healthz, get(200), 0},
		{"/healthz/nothing", healthz, get(404), 0},
		{"/pods", pods, get(200), 0},
		{"/pods/", pods, get(200), 0},
		{"/runningpods", pods, get(200), 405},
		{"/runningpods/", pods, get(200), 405},
		{"/stats/", stats, none, 0},
		{"/stats/summary?only_cpu_and_memory=true", stats, get(200), 0},
		{"/metrics", metrics, get(200), 0},
		{"/metrics/", metrics, none, 0},
		{"/metrics/cadvisor", metrics, get(200), 0},
		{"/metrics/resource", metrics, get(200), 0},
		{"/metrics/probes", metrics, get(200), 0},
		{"/metrics/slis", metrics, get(200), 0},
		{"/metrics/nothing", metrics, none, 0},
		{"/run/ns/p/c?cmd=ls", proxy, post, 405},
		{"/run/ns/p/uid/c?cmd=ls", proxy, post, 405},
		{"/exec/ns/p/c?command=ls&output=1", proxy, session, 405},
		{"/exec/ns/p/uid/c?command=ls&output=1", proxy, session, 405},
		{"/exec/", proxy, map[string]int{"GET": 404, "HEAD": 404, "POST": 404}, 405},
		{"/attach/ns/p/c?output=1", proxy, session, 405},
		{"/attach/ns/p/uid/c?output=1", proxy, session, 405},
		{"/portForward/ns/p?port=80", proxy, session, 405},
		{"/portForward/ns/p/uid", proxy, session, 405},
		{"/containerLogs/ns/p/c?tailLines=1", proxy, get(200), 405},
		{"/configz", configz, get(200), 404},
		{"/flagz", []string{"configz"}, get(200), 404},
		{"/flagz/", []string{"configz"}, none, 404},
		{"/statusz", statusz, get(200), 404},
		{"/statusz/pods", statusz, get(200), 0},
		{"/statusz/pods/default/a", statusz, get(200), 0},
		{"/statusz/pods/ns/p", statusz, get(404), 0},
		{"/checkpoint/ns/p/c", []string{"checkpoint"}, post, 404},
		{"/logs/", logs, get(200), 405},
		{"/logs/a/b.log", logs, get(200), 405},
		{"/debug/pprof/", proxy, get(200), 405},
		{"/debug/pprof/cmdline", proxy, get(200), 405},
		{"/debug/flags/v", proxy, map[string]int{"PUT": 200}, 404},
		{"/", proxy, get(302), 0},
		{"/nothing", proxy, none, 0},
		{"/podsx", proxy, none, 0},
	}
}

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

var verbOf = map[string]string{"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

// A20, A26: these are the endpoints of a server without debugging handlers, and of the read-only
// port.
func TestEndpoints(t *testing.T) {
	source := fixed{report: aReport(), checks: []Check{{Name: "syncloop", OK: true}}}
	for name, h := range map[string]http.Handler{
		"read-only":             ReadOnly(source, measures()),
		"no debugging handlers": api(t, func(c *APIConfig) { c.Source, c.Debugging = source, false }),
	} {
		for _, e := range endpoints() {
			for _, method := range methods {
				got := do(h, method, e.path).Code
				switch code, served := e.answers[method]; {
				case !served && (e.reduced == 404 || strings.HasPrefix(e.path, "/statusz")):
					require.Equal(t, 404, got, "%s: %s %s", name, method, e.path)
				case !served:
					require.Equal(t, 405, got, "%s: %s %s", name, method, e.path)
				case e.reduced != 0:
					require.Equal(t, e.reduced, got, "%s: %s %s", name, method, e.path)
				default:
					require.Equal(t, code, got, "%s: %s %s", name, method, e.path)
				}
			}
		}
	}
}

// A18, A19 and similar: every permission is tried at every path with every method. Package auth
// tests the credentials.
func TestPermissions(t *testing.T) {
	tokens := map[string]authv1.TokenReviewStatus{
		"account": {Authenticated: true, User: authv1.UserInfo{Username: "system:serviceaccount:ns:all", Groups: []string{"system:serviceaccounts"}}},
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
		who, user string // user: the user with the permissions
		client    *http.Client
		header    string
	}{
		{"nobody", unknown, nobody, ""},
		{"a service account", "system:serviceaccount:ns:all", nobody, "Bearer account"},
		{"the wrong authority", unknown, stranger, ""},
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

// wanted returns the status code of a path for a user: 401 and 403 take precedence over 404 and
// 405.
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
