package apitest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	secureURL = "https://server.test"
	// backdate is the time between NotBefore and the signature in certificates of
	// kube-controller-manager.
	backdate = 5 * time.Minute
)

// security is the authentication of a Server that was started with StartSecure. Server.mu guards
// its fields.
type security struct {
	authority    *Authority // nil accepts all requests
	valid        time.Duration
	unauthorized []string
}

// StartSecure serves a new Server with TLS in memory until the test ends. It works in a synctest
// bubble. It authenticates each request, as a real server does: by a client certificate of the
// authority that is valid at that moment, or by the token of Kubeconfig. It rejects other requests
// with 401. Its own certificate and the authority end within a day.
func StartSecure(t testing.TB, a *Authority) *Server {
	s := newInMemory(t, a.Kubeconfig(nil, nil))
	s.authority = a
	own, err := tls.X509KeyPair(a.Issue("server", time.Now().Add(24*time.Hour)))
	a.check(err)
	serve(t, s, s.listener, func(srv *http.Server) error {
		srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
		return srv.ServeTLS(s.listener, "", "")
	})
	return s
}

// Kubeconfig returns a kubeconfig for a server of StartSecure that embeds the authority and a client
// certificate with its key, as kubeadm writes it. Without a certificate it contains the token of a
// user that may request certificates.
func (a *Authority) Kubeconfig(certPEM, keyPEM []byte) string {
	user := "token: secret"
	if certPEM != nil {
		encode := base64.StdEncoding.EncodeToString
		user = "client-certificate-data: " + encode(certPEM) + "\n    client-key-data: " + encode(keyPEM)
	}
	authority := "certificate-authority-data: " + base64.StdEncoding.EncodeToString(a.PEM)
	return strings.Replace(Kubeconfig(secureURL, user), "server:", authority+"\n    server:", 1)
}

// SignRequests approves and signs each new CertificateSigningRequest at once. The certificates are
// valid for d, and from five minutes ago, as kube-controller-manager signs them with
// --cluster-signing-duration. 0 leaves requests pending.
func (s *Server) SignRequests(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.valid = d
}

// Unauthorized returns the requests that StartSecure has rejected so far.
func (s *Server) Unauthorized() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.unauthorized...)
}

// rejects sends 401 to a request without valid credentials, and reports whether it did.
func (s *Server) rejects(w http.ResponseWriter, r *http.Request, c Call) bool {
	s.mu.Lock()
	allowed := s.authority == nil || s.authority.accepts(r)
	if !allowed {
		s.unauthorized = append(s.unauthorized, time.Now().Format(time.TimeOnly)+" "+c.User+" "+c.String())
	}
	s.mu.Unlock()
	if !allowed {
		s.fail(w, r, apierrors.NewUnauthorized("Unauthorized"))
	}
	return !allowed
}

func (a *Authority) accepts(r *http.Request) bool {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return r.Header.Get("Authorization") == "Bearer secret"
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	_, err := r.TLS.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil
}

// signNew signs a new request if SignRequests is on. The caller holds mu.
func (s *Server) signNew(obj Object) error {
	request, ok := obj.(*certv1.CertificateSigningRequest)
	if !ok || s.authority == nil || s.valid == 0 {
		return nil
	}
	certificate, err := s.authority.sign(request.Spec.Request, time.Now().Add(-backdate), time.Now().Add(s.valid))
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	request.Status.Certificate = certificate
	request.Status.Conditions = []certv1.CertificateSigningRequestCondition{{Type: certv1.CertificateApproved, Status: v1.ConditionTrue, Reason: "AutoApproved"}}
	return nil
}
