package certificates

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ClientRequest returns the template of a node's client certificate.
func ClientRequest(node string) *x509.CertificateRequest {
	return &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}}
}

// ServingRequest returns the template of a node's serving certificate for its addresses. It returns
// nil without an IP address, because approvers require one.
func ServingRequest(node string, addresses []v1.NodeAddress) *x509.CertificateRequest {
	r := ClientRequest(node)
	for _, a := range addresses {
		ip := net.ParseIP(a.Address)
		switch a.Type {
		case v1.NodeInternalIP, v1.NodeExternalIP:
		case v1.NodeHostName, v1.NodeInternalDNS, v1.NodeExternalDNS:
			if a.Address != "" && (ip == nil || a.Type != v1.NodeHostName) {
				r.DNSNames, ip = append(r.DNSNames, a.Address), nil
			}
		default:
			continue
		}
		if ip != nil {
			r.IPAddresses = append(r.IPAddresses, ip)
		}
	}
	if len(r.IPAddresses) == 0 {
		return nil
	}
	slices.Sort(r.DNSNames)
	r.DNSNames = slices.Compact(r.DNSNames)
	slices.SortFunc(r.IPAddresses, func(a, b net.IP) int { return slices.Compare(a, b) })
	r.IPAddresses = slices.CompactFunc(r.IPAddresses, net.IP.Equal)
	return r
}

// lacks describes the first part of want that a certificate does not have, or returns "".
func lacks(has *x509.Certificate, want *x509.CertificateRequest) string {
	if has.Subject.CommonName != want.Subject.CommonName {
		return "the name " + want.Subject.CommonName
	}
	for _, o := range want.Subject.Organization {
		if !slices.Contains(has.Subject.Organization, o) {
			return "the organization " + o
		}
	}
	for _, name := range want.DNSNames {
		if !slices.Contains(has.DNSNames, name) {
			return "the DNS name " + name
		}
	}
	for _, ip := range want.IPAddresses {
		if !slices.ContainsFunc(has.IPAddresses, ip.Equal) {
			return "the address " + ip.String()
		}
	}
	return ""
}

// rotateAt returns the time of the next request: after 70 to 90 % of the lifetime for a share of 0
// to 1.
func rotateAt(c *x509.Certificate, share float64) time.Time {
	life := c.NotAfter.Sub(c.NotBefore)
	return c.NotBefore.Add(time.Duration(float64(life) * (0.7 + 0.2*share)))
}

// usages returns the usages that the signer of a kubelet's certificates accepts. RSA keys also get
// key encipherment.
func usages(signer string, key crypto.PublicKey) []certv1.KeyUsage {
	out := []certv1.KeyUsage{certv1.UsageDigitalSignature, certv1.UsageClientAuth}
	if signer == certv1.KubeletServingSignerName {
		out[1] = certv1.UsageServerAuth
	}
	if _, ok := key.(*rsa.PublicKey); ok {
		out = append(out, certv1.UsageKeyEncipherment)
	}
	return out
}

// requestName returns the name of a request: a digest of key, subject and usages, as in the
// reference kubelet, so that an earlier request is found again.
func requestName(key crypto.PublicKey, subject pkix.Name, usages []certv1.KeyUsage) (string, error) {
	public, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", err
	}
	parts := [][]byte{public, []byte(subject.CommonName)}
	for _, o := range subject.Organization {
		parts = append(parts, []byte(o))
	}
	for _, u := range usages {
		parts = append(parts, []byte(u))
	}
	digest, encode := sha512.New512_256(), base64.RawURLEncoding.EncodeToString
	for _, part := range parts {
		fmt.Fprintf(digest, "%s|", encode(part))
	}
	return "node-csr-" + encode(digest.Sum(nil)), nil
}

var (
	// ErrDenied is returned for a request that was denied.
	ErrDenied = errors.New("the certificate signing request was denied")
	// ErrFailed is returned for a request that the signer cannot sign.
	ErrFailed = errors.New("the certificate signing request failed")
	// ErrGone is returned for a request that was deleted before a certificate was issued.
	ErrGone = errors.New("the certificate signing request was deleted")

	// errOther is returned if another request uses the name.
	errOther = errors.New("a different request has its name")
)

// outcome returns the certificate issued for a request, or nil before that.
func outcome(r *certv1.CertificateSigningRequest, uid types.UID) ([]byte, error) {
	if r.UID != uid {
		return nil, fmt.Errorf("%w: a newer request has its name", ErrGone)
	}
	approved := false
	for _, c := range r.Status.Conditions {
		switch c.Type {
		case certv1.CertificateDenied:
			return nil, fmt.Errorf("%w: %s: %s", ErrDenied, c.Reason, c.Message)
		case certv1.CertificateFailed:
			return nil, fmt.Errorf("%w: %s: %s", ErrFailed, c.Reason, c.Message)
		case certv1.CertificateApproved:
			approved = true
		}
	}
	if !approved || len(r.Status.Certificate) == 0 {
		return nil, nil
	}
	return r.Status.Certificate, nil
}

// sameRequest returns an error if two requests of one name differ in signer, subject, key or
// addresses.
func sameRequest(there, own *certv1.CertificateSigningRequest) error {
	theirs, err := parseRequest(there.Spec.Request)
	if err != nil {
		return fmt.Errorf("%w: %w", errOther, err)
	}
	ours, err := parseRequest(own.Spec.Request)
	if err != nil {
		return err
	}
	if there.Spec.SignerName != own.Spec.SignerName || theirs.Subject.String() != ours.Subject.String() || string(theirs.RawSubjectPublicKeyInfo) != string(ours.RawSubjectPublicKeyInfo) ||
		!slices.Equal(theirs.DNSNames, ours.DNSNames) || !slices.EqualFunc(theirs.IPAddresses, ours.IPAddresses, net.IP.Equal) {
		return errOther
	}
	return nil
}

func parseRequest(data []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("the request is not in PEM format")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}
