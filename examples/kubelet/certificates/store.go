package certificates

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/podwright/podwright/internal/fs"
)

// Store are the files of a certificate that is replaced from time to time. Dated files
// stay: they are small, few, and nobody else's to remove.
type Store struct {
	// Dir is the folder (--cert-dir), made when it is needed.
	Dir string
	// Name is what the files begin with: kubelet-client or kubelet-server.
	Name string
}

// CurrentPath is the link to the file with the certificate in force and its key.
func (s Store) CurrentPath() string { return s.path("current") }

func (s Store) path(what string) string {
	return filepath.Join(s.Dir, s.Name+"-"+what+".pem")
}

// Current reads the certificate in force. The error is fs.ErrNotExist without one.
func (s Store) Current() (*tls.Certificate, error) {
	current := s.CurrentPath()
	if _, err := os.Lstat(current); os.IsNotExist(err) {
		// Who was killed may have left a link that was to become this one.
		_ = os.Rename(s.path("updated"), current) // if there is none, that is found below
	}
	pair, err := tls.LoadX509KeyPair(current, current)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", current, err)
	}
	return &pair, nil
}

// Update stores a certificate with what is behind it, and its key, and puts it in force.
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

// link replaces the link in one step. Its target is relative: the folder may be mounted
// elsewhere, too.
func (s Store) link(target string) error {
	updated, current := s.path("updated"), s.CurrentPath()
	if info, err := os.Lstat(current); err == nil && info.Mode()&os.ModeSymlink == 0 {
		return fmt.Errorf("%s is no link: it is not replaced", current)
	}
	if err := os.Remove(updated); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.Symlink(target, updated); err != nil {
		return err
	}
	return os.Rename(updated, current)
}
