package auth

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"

	authv1 "k8s.io/api/authentication/v1"
)

var uidOID = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}

// userOf verifies a client's certificate chain, its own certificate first, and returns the user.
func userOf(chain []*x509.Certificate, roots *x509.CertPool) (User, error) {
	own := chain[0]
	o := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, c := range chain[1:] {
		o.Intermediates.AddCert(c)
	}
	if _, err := own.Verify(o); err != nil {
		return User{}, fmt.Errorf("client certificate of %q: %w", own.Subject.CommonName, err)
	}
	if own.Subject.CommonName == "" {
		return User{}, errors.New("client certificate: its subject has no common name")
	}
	uid, err := uidOf(own)
	if err != nil {
		return User{}, fmt.Errorf("client certificate of %q: %w", own.Subject.CommonName, err)
	}
	print := sha256.Sum256(own.Raw)
	return User{
		Username: own.Subject.CommonName, UID: uid, Groups: own.Subject.Organization,
		Extra: map[string]authv1.ExtraValue{credentialID: {"X509SHA256=" + hex.EncodeToString(print[:])}},
	}, nil
}

func uidOf(c *x509.Certificate) (uid string, err error) {
	for _, name := range c.Subject.Names {
		if !name.Type.Equal(uidOID) {
			continue
		}
		text, ok := name.Value.(string)
		if !ok || text == "" || uid != "" {
			return "", errors.New("its subject has more than one UID, or an empty one")
		}
		uid = text
	}
	return uid, nil
}
