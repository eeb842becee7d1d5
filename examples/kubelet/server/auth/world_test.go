package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
)

type server struct {
	mu      sync.Mutex
	users   map[string]authv1.TokenReviewStatus // by token
	may     map[string][]string                 // by user: "get metrics"
	fail    error
	block   chan struct{} // optional: calls wait for it
	reviews []string
	specs   []authzv1.SubjectAccessReviewSpec
}

func newServer() *server {
	return &server{users: map[string]authv1.TokenReviewStatus{}, may: map[string][]string{}}
}

func (s *server) ReviewToken(ctx context.Context, r *authv1.TokenReview) (*authv1.TokenReview, error) {
	if err := s.enter(ctx, "token "+r.Spec.Token); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := r.DeepCopy()
	out.Status = s.users[r.Spec.Token]
	return out, nil
}

func (s *server) ReviewAccess(ctx context.Context, r *authzv1.SubjectAccessReview) (*authzv1.SubjectAccessReview, error) {
	a := r.Spec.ResourceAttributes
	what := strings.TrimSpace(a.Verb + " " + a.Subresource)
	if err := s.enter(ctx, r.Spec.User+" "+what); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.specs = append(s.specs, r.Spec)
	out := r.DeepCopy()
	for _, may := range s.may[r.Spec.User] {
		out.Status.Allowed = out.Status.Allowed || may == what
		out.Status.Denied = out.Status.Denied || may == "not "+what
	}
	return out, nil
}

func (s *server) enter(ctx context.Context, what string) error {
	s.mu.Lock()
	hold, err := s.block, s.fail
	s.reviews = append(s.reviews, what)
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *server) takeReviews() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.reviews
	s.reviews = nil
	return asked
}

type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	a := &authority{t: t, pool: x509.NewCertPool()}
	a.cert, a.key = a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.pool.AddCert(a.cert)
	return a
}

// issue signs a certificate, first the authority's own. It is valid for an hour unless the template
// has other times.
func (a *authority) issue(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	require.NoError(a.t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return cert, key
}

func (a *authority) client(subject pkix.Name, change ...func(*x509.Certificate)) *x509.Certificate {
	template := &x509.Certificate{Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, f := range change {
		f(template)
	}
	cert, _ := a.issue(template)
	return cert
}

// request returns a request with an optional certificate and an optional token.
func request(method, path string, cert *x509.Certificate, token string) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	r.TLS = &tls.ConnectionState{}
	if cert != nil {
		r.TLS.PeerCertificates = []*x509.Certificate{cert}
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

// response returns the response: "200 jane [a b]" from the handler, or the refusal.
func response(a *Auth, r *http.Request) string {
	w := httptest.NewRecorder()
	a.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, ok := UserFrom(r.Context())
		fmt.Fprint(w, u.Username, " ", u.Groups, map[bool]string{false: " NO USER"}[ok], r.Header.Get("Authorization"))
	})).ServeHTTP(w, r)
	body, _ := io.ReadAll(w.Result().Body) // in memory
	return fmt.Sprint(w.Code, " ", strings.TrimSpace(string(body)))
}
