package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/keyutil"

	"github.com/podwright/podwright/internal/fs"
)

// Store names the files of a certificate that is replaced regularly. Files with a date stay on the
// disk: they are small and few.
type Store struct {
	// Dir is the folder (--cert-dir). Update creates it.
	Dir string
	// Name is the prefix of the files: kubelet-client or kubelet-server.
	Name string
}

// CurrentPath returns the path of the link to the current certificate and its key.
func (s Store) CurrentPath() string { return s.path("current") }

func (s Store) path(what string) string {
	return filepath.Join(s.Dir, s.Name+"-"+what+".pem")
}

// Current reads the current certificate. It returns fs.ErrNotExist without one.
func (s Store) Current() (*tls.Certificate, error) {
	current := s.CurrentPath()
	if _, err := os.Lstat(current); os.IsNotExist(err) {
		// A killed process may have left the new link without renaming it.
		_ = os.Rename(s.path("updated"), current) // if it is missing, too, readFile fails
	}
	data, err := readFile(current)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(data, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", current, err)
	}
	return &pair, nil
}

// keyPath returns the path of the key of a pending request.
func (s Store) keyPath() string { return filepath.Join(s.Dir, s.Name+".key.tmp") }

// pendingKey returns the key of an earlier request without an outcome, or stores a new one.
func (s Store) pendingKey() (crypto.Signer, error) {
	if data, err := readFile(s.keyPath()); err == nil {
		if key, err := keyutil.ParsePrivateKeyPEM(data); err == nil {
			if signer, ok := key.(crypto.Signer); ok {
				return signer, nil
			}
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	text, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.Dir, 0o750); err != nil {
		return nil, err
	}
	return key, fs.WriteAtomic(s.keyPath(), text, 0o600)
}

// forgetKey removes the key of a request that has an outcome.
func (s Store) forgetKey() error {
	if err := os.Remove(s.keyPath()); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// Update stores a certificate chain with its key and makes it the current one.
func (s Store) Update(certPEM, keyPEM []byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("certificate for %s: %w", s.CurrentPath(), err)
	}
	if err := os.MkdirAll(s.Dir, 0o750); err != nil {
		return nil, err
	}
	dated := s.path(time.Now().Format("2006-01-02-15-04-05"))
	if err := fs.WriteAtomic(dated, append(append([]byte(nil), certPEM...), keyPEM...), 0o600); err != nil {
		return nil, err
	}
	return &pair, s.link(filepath.Base(dated))
}

// link replaces the link atomically. The target is relative, because the folder may be mounted at
// another path.
func (s Store) link(target string) error {
	updated, current := s.path("updated"), s.CurrentPath()
	if info, err := os.Lstat(current); err == nil && info.Mode()&os.ModeSymlink == 0 {
		return fmt.Errorf("%s is not a symbolic link and is not replaced", current)
	}
	if err := os.Remove(updated); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.Symlink(target, updated); err != nil {
		return err
	}
	return os.Rename(updated, current)
}
