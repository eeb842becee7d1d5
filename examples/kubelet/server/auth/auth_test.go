package auth

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	authv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConfigIsChecked(t *testing.T) {
	var none *server
	// A8: the defaults of the file need an API server.
	const required = "auth: Config.Reviews is required if reviews are enabled: authentication.webhook.enabled is true, authorization.mode "
	const negative = "\nauth: Config.Tokens.TTL is negative: -1ns\nauth: Config.AllowedTTL is negative: -1ns\nauth: Config.DeniedTTL is negative: -1ns"
	for want, cfg := range map[string]Config{
		"auth: Config.NodeName is required\nauth: Config.Mode \"\" is neither AlwaysAllow nor Webhook" + negative: {Tokens: Tokens{TTL: -1}, AllowedTTL: -1, DeniedTTL: -1},
		`auth: Config.Mode "RBAC" is neither AlwaysAllow nor Webhook`:                                             {NodeName: "n", Mode: "RBAC"},
		required + "Webhook":     {NodeName: "n", Mode: Webhook, Tokens: Tokens{Enabled: true}, Reviews: none},
		required + "AlwaysAllow": {NodeName: "n", Mode: AlwaysAllow, Tokens: Tokens{Enabled: true}},
	} {
		_, err := New(cfg)
		require.EqualError(t, err, want)
	}
	_, err := New(Config{NodeName: "n", Mode: AlwaysAllow})
	require.NoError(t, err, "a node without an API server")
}

type world struct {
	*Auth
	server *server
	ca     *authority
}

func newWorld(t testing.TB, change ...func(*Config)) *world {
	w := &world{server: newServer(), ca: newAuthority(t)}
	cfg := Config{
		NodeName: "worker", ClientCAs: func() *x509.CertPool { return w.ca.pool }, Tokens: Tokens{Enabled: true}, Mode: Webhook, Reviews: w.server,
	}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	w.Auth, err = New(cfg)
	require.NoError(t, err)
	return w
}

// Every kind of client gets the right status codes at several endpoints (A18, A19).
func TestStatusCodesByClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.server.users["jane's"] = authv1.TokenReviewStatus{Authenticated: true, User: authv1.UserInfo{Username: "jane", Groups: []string{"staff", "system:authenticated"}}}
		w.server.users["bad"] = authv1.TokenReviewStatus{Error: "expired"}
		w.server.may = map[string][]string{
			"jane": {"get pods"}, "proxy": {"get proxy", "create proxy"}, "metrics": {"get metrics"}, "both": {"get stats", "not get stats"}, "denied": {"not get pods", "get proxy"},
		}
		name := func(n string, orgs ...string) *x509.Certificate {
			return w.ca.client(pkix.Name{CommonName: n, Organization: orgs})
		}
		other := newAuthority(t).client(pkix.Name{CommonName: "proxy"})
		old := w.ca.client(pkix.Name{CommonName: "proxy"}, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) })
		early := w.ca.client(pkix.Name{CommonName: "proxy"})
		early.NotBefore = time.Now().Add(time.Minute)
		serving := w.ca.client(pkix.Name{CommonName: "proxy"}, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
		for _, x := range []struct {
			name string
			r    *http.Request
			want string
		}{
			{"no credentials", request("GET", "/pods", nil, ""), "401 Unauthorized"},
			{"no credentials, unknown path", request("GET", "/unknown", nil, ""), "401 Unauthorized"},
			{"no credentials, odd path", request("GET", "//pods", nil, ""), "401 Unauthorized"},
			{"an authority of others", request("GET", "/pods", other, ""), "401 Unauthorized"},
			{"expired", request("GET", "/pods", old, ""), "401 Unauthorized"},
			{"not valid yet", request("GET", "/pods", early, ""), "401 Unauthorized"},
			{"a server's", request("GET", "/pods", serving, ""), "401 Unauthorized"},
			{"no name", request("GET", "/pods", w.ca.client(pkix.Name{Organization: []string{"system:masters"}}), ""), "401 Unauthorized"},
			{"bad token", request("GET", "/pods", nil, "bad"), "401 Unauthorized"},
			{"rubbish token", request("GET", "/pods", nil, "\x80rubbish.rubbish"), "401 Unauthorized"},
			{"unknown token", request("GET", "/pods", nil, "unknown"), "401 Unauthorized"},
			{"wrong certificate, good token", request("GET", "/pods", other, "jane's"), "200 jane [staff system:authenticated]"},
			{"nodes/pods", request("GET", "/pods", nil, "jane's"), "200 jane [staff system:authenticated]"},
			{"nodes/pods, other path", request("GET", "/runningpods/", nil, "jane's"), "200 jane [staff system:authenticated]"},
			{"nodes/pods, exec", request("GET", "/exec/ns/pod/c", nil, "jane's"), "403 Forbidden (user=jane, verb=get, resource=nodes, subresource(s)=[proxy])"},
			{"nodes/pods, write", request("POST", "/pods", nil, "jane's"), "403 Forbidden (user=jane, verb=create, resource=nodes, subresource(s)=[pods proxy])"},
			{"nodes/proxy", request("GET", "/pods", name("proxy", "admins"), ""), "200 proxy [admins system:authenticated]"},
			{"nodes/proxy, exec", request("POST", "/exec/ns/pod/c", name("proxy"), ""), "200 proxy [system:authenticated]"},
			{"nodes/proxy, metrics", request("GET", "/metrics", name("proxy"), ""), "403 Forbidden (user=proxy, verb=get, resource=nodes, subresource(s)=[metrics])"},
			{"nodes/proxy, HEAD", request("HEAD", "/pods", name("proxy"), ""), "403 Forbidden (user=proxy, verb=, resource=nodes, subresource(s)=[pods proxy])"},
			{"nodes/metrics", request("GET", "/metrics", name("metrics"), ""), "200 metrics [system:authenticated]"},
			{"nodes/metrics, exec", request("GET", "/exec/ns/pod/c", name("metrics"), ""), "403 Forbidden (user=metrics, verb=get, resource=nodes, subresource(s)=[proxy])"},
			{"nodes/metrics, odd path", request("GET", "/metrics/%2e%2e/exec", name("metrics"), ""), "400 the path is not clean: it must be absolute, without ., .., // and encoded slashes"},
			{"no rights", request("GET", "/pods", name("nobody"), ""), "403 Forbidden (user=nobody, verb=get, resource=nodes, subresource(s)=[pods proxy])"},
			{"no rights, unknown path", request("GET", "/unknown", name("nobody"), ""), "403 Forbidden (user=nobody, verb=get, resource=nodes, subresource(s)=[proxy])"},
			{"a contradiction", request("GET", "/stats/summary", name("both"), ""), "500 Authorization error (user=both, verb=get, resource=nodes, subresource(s)=[stats])"},
			{"denied pods, allowed proxy", request("GET", "/pods", name("denied"), ""), "200 denied [system:authenticated]"},
		} {
			require.Equal(t, x.want, response(w.Auth, x.r), x.name)
		}
	})
}

// Reviews contain all fields of the credentials.
func TestReviewsContainAllFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cert := w.ca.client(pkix.Name{CommonName: "jane", Organization: []string{"staff"}, ExtraNames: []pkix.AttributeTypeAndValue{{Type: uidOID, Value: "u-1"}}})
		response(w.Auth, request("PUT", "/debug/flags/v", cert, ""))
		require.Len(t, w.server.specs, 1)
		spec := w.server.specs[0]
		require.Equal(t, "jane", spec.User)
		require.Equal(t, "u-1", spec.UID)
		require.Equal(t, []string{"staff", "system:authenticated"}, spec.Groups)
		require.Regexp(t, "^X509SHA256=[0-9a-f]{64}$", spec.Extra["authentication.kubernetes.io/credential-id"][0])
		require.Nil(t, spec.NonResourceAttributes)
		a := *spec.ResourceAttributes
		require.Equal(t, []string{"update", "", "v1", "nodes", "proxy", "worker", ""}, []string{a.Verb, a.Group, a.Version, a.Resource, a.Subresource, a.Name, a.Namespace})

		w.server.users["t"] = authv1.TokenReviewStatus{Authenticated: true, User: authv1.UserInfo{Username: "robot", UID: "u-2", Extra: map[string]authv1.ExtraValue{"pod": {"p"}}}}
		response(w.Auth, request("GET", "/metrics", nil, "t"))
		spec = w.server.specs[1]
		require.Equal(t, "u-2", spec.UID)
		require.Equal(t, "p", spec.Extra["pod"][0])
	})
}

func TestUIDOfCertificates(t *testing.T) {
	ca := newAuthority(t)
	for name, x := range map[string]struct {
		names []pkix.AttributeTypeAndValue
		ok    bool
	}{
		"none":    {nil, true},
		"one":     {[]pkix.AttributeTypeAndValue{{Type: uidOID, Value: "a"}}, true},
		"two":     {[]pkix.AttributeTypeAndValue{{Type: uidOID, Value: "a"}, {Type: uidOID, Value: "b"}}, false},
		"empty":   {[]pkix.AttributeTypeAndValue{{Type: uidOID, Value: ""}}, false},
		"another": {[]pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{1, 2, 3}, Value: "a"}}, true},
	} {
		_, err := userOf([]*x509.Certificate{ca.client(pkix.Name{CommonName: "jane", ExtraNames: x.names})}, ca.pool)
		require.Equal(t, x.ok, err == nil, "%s: %v", name, err)
	}
}

// An intermediate authority connects the client's certificate with a root.
func TestIntermediateAuthority(t *testing.T) {
	root := newAuthority(t)
	between := &authority{t: t}
	between.cert, between.key = root.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "between"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	own := between.client(pkix.Name{CommonName: "jane"})
	u, err := userOf([]*x509.Certificate{own, between.cert}, root.pool)
	require.NoError(t, err)
	require.Equal(t, "jane", u.Username)
	_, err = userOf([]*x509.Certificate{own}, root.pool)
	require.ErrorAs(t, err, new(x509.UnknownAuthorityError))
}

// A change of the authorities takes effect at the next request of an open connection.
func TestAuthoritiesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.Mode = AlwaysAllow })
		r := request("GET", "/pods", w.ca.client(pkix.Name{CommonName: "jane"}), "")
		require.Equal(t, "200 jane [system:authenticated]", response(w.Auth, r))
		w.ca = newAuthority(t)
		require.Equal(t, "401 Unauthorized", response(w.Auth, r))
		w.ca.pool = nil
		require.Equal(t, "401 Unauthorized", response(w.Auth, r))
	})
}

func TestAnonymous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.Anonymous = true })
		w.server.may["system:anonymous"] = []string{"get healthz"}
		require.Equal(t, "200 system:anonymous [system:unauthenticated]", response(w.Auth, request("GET", "/healthz", nil, "")))
		require.Equal(t, "403 Forbidden (user=system:anonymous, verb=get, resource=nodes, subresource(s)=[pods proxy])", response(w.Auth, request("GET", "/pods", nil, "")))
		require.Equal(t, "401 Unauthorized", response(w.Auth, request("GET", "/healthz", nil, "wrong")), "invalid credentials are not anonymous")
		require.Equal(t, "401 Unauthorized", response(w.Auth, request("GET", "/healthz", newAuthority(t).client(pkix.Name{CommonName: "x"}), "")))
		broken := request("GET", "/healthz", nil, "")
		broken.Header = http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Sec-Websocket-Protocol": {"v4," + protocolPrefix + "%"}}
		require.Equal(t, "401 Unauthorized", response(w.Auth, broken), "unreadable credentials are refused")
		w.server.set(func() { w.server.fail = errors.New("down") })
		require.Equal(t, "401 Unauthorized", response(w.Auth, request("GET", "/healthz", nil, "unknown")))

		// A7: there is no API server.
		alone, err := New(Config{NodeName: "n", Mode: AlwaysAllow, Anonymous: true})
		require.NoError(t, err)
		require.Equal(t, "200 system:anonymous [system:unauthenticated]", response(alone, request("POST", "/exec/ns/pod/c", nil, "ignored")))
		require.Equal(t, "400 the path is not clean: it must be absolute, without ., .., // and encoded slashes", response(alone, request("GET", "/pods/../exec", nil, "")))
	})
}

// Decisions are cached for the configured time, errors are not cached.
func TestReviewsAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.server.users["t"] = authv1.TokenReviewStatus{Authenticated: true, User: authv1.UserInfo{Username: "jane"}}
		w.server.may["jane"] = []string{"get metrics"}
		ask := func(path, token string, want ...string) {
			t.Helper()
			response(w.Auth, request("GET", path, nil, token))
			require.Equal(t, want, w.server.takeReviews())
		}
		ask("/metrics", "t", "token t", "jane get metrics")
		ask("/metrics", "t")
		ask("/logs/", "t", "jane get log")
		ask("/logs/", "t")
		time.Sleep(29 * time.Second)
		ask("/logs/", "t")
		time.Sleep(2 * time.Second)
		ask("/logs/", "t", "jane get log")
		time.Sleep(87 * time.Second)
		ask("/metrics", "t")
		time.Sleep(3 * time.Second)
		ask("/metrics", "t", "token t")
		time.Sleep(118 * time.Second)
		ask("/metrics", "t")
		time.Sleep(62 * time.Second)
		ask("/metrics", "t", "token t", "jane get metrics")

		ask("/metrics", "nobody's", "token nobody's")
		ask("/metrics", "nobody's")
		w.server.users["late"] = authv1.TokenReviewStatus{Error: "not seen yet"}
		ask("/metrics", "late", "token late")
		w.server.users["late"] = w.server.users["t"]
		ask("/metrics", "late", "token late")
		ask("/metrics", "late")
	})
}

// An error never grants access. Temporary errors are retried for a bounded time. A client that
// disconnects does not cancel the review for others.
func TestFailClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.server.may["jane"] = []string{"get metrics"}
		r := func() *http.Request {
			return request("GET", "/metrics", w.ca.client(pkix.Name{CommonName: "jane"}), "")
		}
		w.server.fail = errors.New("down")
		began := time.Now()
		require.Equal(t, "500 Authorization error (user=jane, verb=get, resource=nodes, subresource(s)=[metrics])", response(w.Auth, r()))
		require.Zero(t, time.Since(began), "the failure takes no time")
		require.Len(t, w.server.takeReviews(), 1)

		for _, passing := range []error{syscall.ECONNRESET, apierrors.NewTooManyRequests("busy", 0), apierrors.NewInternalError(errors.New("etcd"))} {
			w.server.set(func() { w.server.fail = passing })
			require.Contains(t, response(w.Auth, r()), "500 ")
			require.Len(t, w.server.takeReviews(), 5)
		}
		time.AfterFunc(time.Second, func() { w.server.set(func() { w.server.fail = nil }) })
		require.Equal(t, "200 jane [system:authenticated]", response(w.Auth, r()))

		time.Sleep(6 * time.Minute)
		w.server.set(func() { w.server.block = make(chan struct{}) })
		began = time.Now()
		require.Contains(t, response(w.Auth, r()), "500 ")
		require.Equal(t, reviewTimeout, time.Since(began))
		began = time.Now()
		require.Equal(t, "401 Unauthorized", response(w.Auth, request("GET", "/metrics", nil, "t")))
		require.Equal(t, reviewTimeout, time.Since(began))

		// Both reviews of a request share the limit.
		first := w.server.block
		w.server.users["t"] = authv1.TokenReviewStatus{Authenticated: true, User: authv1.UserInfo{Username: "late"}}
		time.AfterFunc(reviewTimeout/2, func() {
			w.server.set(func() { w.server.block = make(chan struct{}) })
			close(first)
		})
		began = time.Now()
		require.Contains(t, response(w.Auth, request("GET", "/metrics", nil, "t")), "500 ")
		require.Equal(t, reviewTimeout, time.Since(began))
	})
}

// Many equal requests at once cause one review, even if the first client disconnects.
func TestEqualRequestsShareAReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.server.users["t"] = authv1.TokenReviewStatus{Authenticated: true, User: authv1.UserInfo{Username: "jane"}}
		w.server.may["jane"] = []string{"get proxy"}
		release := make(chan struct{})
		w.server.block = release
		var wg sync.WaitGroup
		gone, leave := context.WithCancel(t.Context())
		answers := make([]string, 100)
		for i := range answers {
			r := request("GET", "/containerLogs/ns/pod/c", nil, "t")
			if i == 0 {
				r = r.WithContext(gone)
			}
			wg.Go(func() { answers[i] = response(w.Auth, r) })
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		close(release)
		wg.Wait()
		for _, got := range answers {
			require.Equal(t, "200 jane [system:authenticated]", got)
		}
		require.Equal(t, []string{"token t", "jane get proxy"}, w.server.takeReviews())
	})
}

// The cache is bounded, whatever unauthenticated clients send.
func TestCacheIsBounded(t *testing.T) {
	w := newWorld(t)
	for i := range maxResults + 100 {
		_, err := w.tokens.get(t.Context(), i, func(context.Context) (authv1.TokenReviewStatus, time.Duration, error) {
			return authv1.TokenReviewStatus{}, time.Hour, nil
		})
		require.NoError(t, err)
	}
	require.Len(t, w.tokens.results.Keys(), maxResults)
}
