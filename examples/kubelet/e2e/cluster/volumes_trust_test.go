package cluster_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// prepareBundles creates trust bundles, one by name and others by signer.
func (s *storage) prepareBundles(t *testing.T) {
	s.other = filepath.Join(s.dir, "other.crt")
	require.NoError(t, os.WriteFile(s.other, authority(t), 0o600))
	s.bundle(t, s.name+"-named", "", s.CA)
	s.bundle(t, "example.com:"+s.name+"-s:one", "example.com/"+s.name+"-s", s.other)
	s.bundle(t, "example.com:"+s.name+"-other:one", "example.com/"+s.name+"-other", s.CA)
}

// bundlePods returns the pods that mount the bundles.
func bundlePods() string {
	return volumePod("bundles", "volumeMounts: [{name: v, mountPath: /v}]", "{name: v, projected: {sources: ["+
		"{clusterTrustBundle: {name: NODE-named, path: named.pem}}, "+
		"{clusterTrustBundle: {signerName: example.com/NODE-s, labelSelector: {matchLabels: {use: test}}, path: signed.pem}}, "+
		"{clusterTrustBundle: {name: NODE-none, optional: true, path: none.pem}}]}}") +
		volumePod("bundleless", "volumeMounts: [{name: v, mountPath: /v}]", "{name: v, projected: {sources: [{clusterTrustBundle: {name: NODE-none, path: none.pem}}]}}")
}

// bundle creates or updates a trust bundle from a file, without text replacements.
func (s *storage) bundle(t *testing.T, name, signer, file string) {
	t.Helper()
	certificate, err := os.ReadFile(file)
	require.NoError(t, err)
	text, err := json.Marshal(map[string]any{
		"apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle",
		"metadata": map[string]any{"name": name, "labels": map[string]string{"use": "test"}},
		"spec":     map[string]string{"signerName": signer, "trustBundle": string(certificate)},
	})
	require.NoError(t, err)
	_, err = s.run(text, "apply", "-f", "-")
	require.NoError(t, err)
}

// A pod sees trust bundles by name and by signer, with their changes. A missing bundle keeps a pod
// waiting.
func testTrustBundles(t *testing.T, s *storage) {
	s.ready(t, "bundles")
	shows := func(file, want string) error {
		certificate, err := os.ReadFile(want)
		if got := s.exec(t, "bundles/c", "cat", "/v/"+file); err != nil || strings.TrimSpace(got) != strings.TrimSpace(string(certificate)) {
			return fmt.Errorf("%s: %q, %w", file, got, err)
		}
		return nil
	}
	require.NoError(t, shows("named.pem", s.CA))
	require.NoError(t, shows("signed.pem", s.other))
	s.requireWaiting(t, "bundleless")
	s.waitEventText(t, "Pod", "bundleless", "FailedMount", s.name+"-none")
	s.bundle(t, s.name+"-named", "", s.other)
	s.bundle(t, "example.com:"+s.name+"-s:one", "example.com/"+s.name+"-s", s.CA)
	s.bundle(t, s.name+"-none", "", s.CA)
	s.until(t, "the container sees the changes", func() error { return errors.Join(shows("named.pem", s.other), shows("signed.pem", s.CA)) })
	s.until(t, "the container sees the optional bundle", func() error { return shows("none.pem", s.CA) })
	s.ready(t, "bundleless")
	s.do(t, "delete", "clustertrustbundle", s.name+"-named", s.name+"-none", "example.com:"+s.name+"-s:one", "example.com:"+s.name+"-other:one")
}

func authority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "another"}, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
