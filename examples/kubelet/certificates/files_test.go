package certificates

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
)

// A new pair is used within seconds. Half a pair, or a missing one, keeps the previous pair.
func TestServingFilesAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, ca := t.TempDir(), newAuthority(t)
		put := func(name string) {
			cert, key := ca.pair(ClientRequest(name), time.Hour)
			write(t, at(dir, "tls.crt"), cert)
			time.Sleep(3 * pollPeriod)
			write(t, at(dir, "tls.key"), key)
			time.Sleep(2 * pollPeriod)
		}
		cert, key := ca.pair(ClientRequest("a"), time.Hour)
		write(t, at(dir, "tls.crt"), cert)
		write(t, at(dir, "tls.key"), key)
		var log bytes.Buffer
		f, err := NewServing(at(dir, "tls.crt"), at(dir, "tls.key"), slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		name := func() string { return f.Current().Leaf.Subject.CommonName }
		require.Equal(t, "system:node:a", name())
		stop := apitest.Run(t, f.Run)
		time.Sleep(pollPeriod / 2) // the files change between two looks
		put("b")
		require.Equal(t, "system:node:b", name())
		for _, spoil := range []func(){
			func() { write(t, at(dir, "tls.crt"), []byte("no certificate")) }, func() { require.NoError(t, os.Remove(at(dir, "tls.crt"))) },
		} {
			spoil()
			time.Sleep(10 * pollPeriod)
			require.Equal(t, "system:node:b", name())
		}
		put("c")
		require.Equal(t, "system:node:c", name())
		stop()
		require.Equal(t, 2, bytes.Count(log.Bytes(), []byte("certificate changed")))
		require.Equal(t, 4, bytes.Count(log.Bytes(), []byte("continuing with the previous one")), "each fault once: %s", &log)
		require.ErrorIs(t, f.Run(t.Context()), ErrAlreadyRun)
	})
}

// The authorities of clients are followed if they change through a link, as in a folder that
// Kubernetes mounts.
func TestAuthoritiesAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, a, b := t.TempDir(), newAuthority(t), newAuthority(t)
		write(t, at(dir, "1"), a.pem)
		write(t, at(dir, "2"), append(append([]byte("# both\n"), a.pem...), b.pem...))
		require.NoError(t, os.Symlink("1", at(dir, "ca.crt")))
		f, err := NewAuthorities(at(dir, "ca.crt"), nil)
		require.NoError(t, err)
		apitest.Run(t, f.Run)
		verify := func(ca *authority) error {
			pair, err := tls.X509KeyPair(ca.pair(ClientRequest("n"), time.Hour))
			require.NoError(t, err)
			_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: f.Current()})
			return err
		}
		require.NoError(t, verify(a))
		require.Error(t, verify(b))
		before := f.Current()
		time.Sleep(10 * pollPeriod)
		require.Same(t, before, f.Current(), "unchanged files keep their certificate")
		require.NoError(t, os.Symlink("2", at(dir, "new")))
		require.NoError(t, os.Rename(at(dir, "new"), at(dir, "ca.crt")))
		time.Sleep(2 * pollPeriod)
		require.NoError(t, verify(a))
		require.NoError(t, verify(b))
	})
}

// The error names each unusable file.
func TestFilesThatCannotBeUsed(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t)
	cert, key := ca.pair(ClientRequest("a"), time.Hour)
	_, other := ca.pair(ClientRequest("a"), time.Hour)
	for name, data := range map[string][]byte{"crt": cert, "key": key, "other": other, "empty": nil, "large": make([]byte, largest+1)} {
		write(t, at(dir, name), data)
	}
	require.NoError(t, os.Mkdir(at(dir, "folder"), 0o700))
	for _, x := range []struct{ cert, key, says string }{
		{"crt", "other", "crt with " + at(dir, "other")},
		{"crt", "empty", "empty"}, {"empty", "key", "empty with"}, {"folder", "key", "folder: is a folder, not a file"}, {"large", "key", "more than the limit"},
	} {
		_, err := NewServing(at(dir, x.cert), at(dir, x.key), nil)
		require.ErrorContains(t, err, x.says)
	}
	_, err := NewServing(at(dir, "none"), at(dir, "key"), nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = NewServing("", "x", nil)
	require.EqualError(t, err, "certificates: certFile and keyFile are required")
	_, err = NewAuthorities("", nil)
	require.EqualError(t, err, "certificates: file is required")
	_, err = NewAuthorities(at(dir, "key"), nil)
	require.ErrorContains(t, err, at(dir, "key")+": ")
}

func TestSelfSigned(t *testing.T) {
	dir := at(t.TempDir(), "pki")
	cert, key := at(dir, "kubelet.crt"), at(dir, "kubelet.key")
	makes := func() {
		certFile, keyFile, err := SelfSigned(dir, "worker-1")
		require.NoError(t, err)
		require.Equal(t, []string{cert, key}, []string{certFile, keyFile})
		require.Equal(t, []string{"kubelet.crt", "kubelet.key"}, names(t, dir))
	}
	makes()
	f, err := NewServing(cert, key, nil)
	require.NoError(t, err)
	leaf := f.Current().Leaf
	require.NoError(t, leaf.VerifyHostname("worker-1"))
	require.Regexp(t, `^worker-1@\d+$`, leaf.Subject.CommonName)
	require.InDelta(t, 365*24, time.Until(leaf.NotAfter).Hours(), 24)
	require.Equal(t, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, leaf.ExtKeyUsage)
	authority, err := x509.ParseCertificate(f.Current().Certificate[1])
	require.NoError(t, err)
	require.NoError(t, leaf.CheckSignatureFrom(authority))
	require.Equal(t, leaf.Issuer.String(), authority.Subject.String())
	info, err := os.Stat(key)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())

	before := read(t, cert)
	makes()
	require.Equal(t, before, read(t, cert), "existing files stay")
	require.NoError(t, os.Remove(cert)) // state after a kill in between
	makes()
	_, err = NewServing(cert, key, nil)
	require.NoError(t, err)

	write(t, key, []byte("no key"))
	_, _, err = SelfSigned(dir, "worker-1")
	require.ErrorContains(t, err, "kubelet.key", "foreign files are not replaced")
	_, _, err = SelfSigned("", "x")
	require.EqualError(t, err, "certificates: dir and host are required")
}

func read(t *testing.T, file string) string {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// Only an expired certificate that SelfSigned created is replaced.
func TestSelfSignedExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		_, _, err := SelfSigned(dir, "10.0.0.1")
		require.NoError(t, err)
		time.Sleep(400 * 24 * time.Hour)
		cert, key, err := SelfSigned(dir, "10.0.0.1")
		require.NoError(t, err)
		f, err := NewServing(cert, key, nil)
		require.NoError(t, err)
		require.True(t, f.Current().Leaf.NotAfter.After(time.Now()))
		require.NoError(t, f.Current().Leaf.VerifyHostname("10.0.0.1"))

		certPEM, keyPEM := newAuthority(t).pair(ClientRequest("a"), time.Hour)
		write(t, cert, certPEM)
		write(t, key, keyPEM)
		time.Sleep(2 * time.Hour)
		_, _, err = SelfSigned(dir, "10.0.0.1")
		require.NoError(t, err)
		require.Equal(t, string(certPEM), read(t, cert))
	})
}
