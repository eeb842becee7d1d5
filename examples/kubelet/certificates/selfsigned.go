package certificates

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/podwright/podwright/internal/atomicfile"
)

// SelfSigned returns the files of a certificate that a server shows which was given none:
// kubelet.crt and kubelet.key in a folder. If there are none, it makes them, for a host
// (its name or address), valid for a year, signed by an authority whose key nobody keeps.
// What is there is used, whoever made it; one that was made here and has expired is made
// anew.
func SelfSigned(dir, host string) (certFile, keyFile string, err error) {
	if dir == "" || host == "" {
		return "", "", errors.New("certificates: dir and host are required")
	}
	certFile, keyFile = filepath.Join(dir, "kubelet.crt"), filepath.Join(dir, "kubelet.key")
	switch there, err := tls.LoadX509KeyPair(certFile, keyFile); {
	case err == nil && !(expired(&there, time.Now()) && strings.HasPrefix(there.Leaf.Issuer.CommonName, host+"-ca@")):
		return certFile, keyFile, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", "", fmt.Errorf("%s with %s: %w", certFile, keyFile, err)
	}
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		return "", "", fmt.Errorf("self-signed certificate of %s: %w", host, err)
	}
	// The certificate is removed first and comes last: a pair is never of two halves.
	if err := os.Remove(certFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", "", err
	}
	if err := atomicfile.Write(keyFile, keyPEM, 0o600); err != nil {
		return "", "", err
	}
	return certFile, keyFile, atomicfile.Write(certFile, certPEM, 0o644)
}
