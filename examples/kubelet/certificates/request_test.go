package certificates

import (
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
)

func addressesOf(ips ...string) (out []v1.NodeAddress) {
	for _, ip := range ips {
		out = append(out, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip})
	}
	return out
}

func TestServingRequest(t *testing.T) {
	a := func(kind v1.NodeAddressType, address string) v1.NodeAddress {
		return v1.NodeAddress{Type: kind, Address: address}
	}
	for name, x := range map[string]struct {
		addresses []v1.NodeAddress
		dns, ips  []string
	}{
		"none":         {},
		"only names":   {addresses: []v1.NodeAddress{a(v1.NodeHostName, "worker"), a(v1.NodeInternalDNS, "worker.local")}},
		"only rubbish": {addresses: []v1.NodeAddress{a(v1.NodeInternalIP, "worker"), a(v1.NodeInternalIP, ""), a("Other", "10.0.0.1")}},
		"all": {
			[]v1.NodeAddress{
				a(v1.NodeExternalIP, "192.0.2.1"), a(v1.NodeInternalIP, "10.0.0.1"), a(v1.NodeInternalIP, "fd00::1"), a(v1.NodeInternalIP, "10.0.0.1"),
				a(v1.NodeHostName, "worker"), a(v1.NodeExternalDNS, "worker.example"), a(v1.NodeInternalDNS, "worker"), a(v1.NodeHostName, ""),
			}, []string{"worker", "worker.example"}, []string{"10.0.0.1", "192.0.2.1", "fd00::1"},
		},
		"a host named by its address": {[]v1.NodeAddress{a(v1.NodeHostName, "10.0.0.1")}, nil, []string{"10.0.0.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := ServingRequest("n1", x.addresses)
			if x.ips == nil {
				require.Nil(t, r)
				return
			}
			require.Equal(t, "system:node:n1", r.Subject.CommonName)
			require.Equal(t, []string{"system:nodes"}, r.Subject.Organization)
			require.Equal(t, x.dns, r.DNSNames)
			var ips []string
			for _, ip := range r.IPAddresses {
				ips = append(ips, ip.String())
			}
			require.ElementsMatch(t, x.ips, ips)
		})
	}
	first := ServingRequest("n", addressesOf("10.0.0.2", "10.0.0.1", "fd00::1"))
	require.Equal(t, first, ServingRequest("n", addressesOf("fd00::1", "10.0.0.1", "10.0.0.2")), "the order of addresses does not matter")
}

func TestLacks(t *testing.T) {
	want := ServingRequest("n", append(addressesOf("10.0.0.1"), v1.NodeAddress{Type: v1.NodeHostName, Address: "n"}))
	for says, has := range map[string]x509.Certificate{
		"":                              {Subject: want.Subject, DNSNames: []string{"more", "n"}, IPAddresses: []net.IP{net.ParseIP("10.0.0.1").To4(), net.ParseIP("::1")}},
		"the name system:node:n":        {},
		"the organization system:nodes": {Subject: pkix.Name{CommonName: "system:node:n"}},
		"the DNS name n":                {Subject: want.Subject},
		"the address 10.0.0.1":          {Subject: want.Subject, DNSNames: []string{"n"}},
	} {
		require.Equal(t, says, lacks(&has, want))
	}
}

func TestRotateAt(t *testing.T) {
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	c := &x509.Certificate{NotBefore: begin, NotAfter: begin.Add(100 * time.Hour)}
	for share, want := range map[float64]time.Duration{0: 70 * time.Hour, 0.5: 80 * time.Hour, 1: 90 * time.Hour} {
		require.WithinDuration(t, begin.Add(want), rotateAt(c, share), time.Second)
	}
}

func TestUsages(t *testing.T) {
	require.Equal(t, []certv1.KeyUsage{"digital signature", "client auth"}, usages(certv1.KubeAPIServerClientKubeletSignerName, newKey(t).Public()))
	require.Equal(t, []certv1.KeyUsage{"digital signature", "server auth", "key encipherment"}, usages(certv1.KubeletServingSignerName, &rsa.PublicKey{}))
}

// publicKey is a key for which the reference kubelet 1.36.3 generates the request name below.
const publicKey = `-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEQnTnXLs0UIuakeQSRkbrG0g4ulwe
CppguCf4K3yZnd9IqOBG1t0QXIk2JB/+GkV8h5tvq+1dGdLFSVLG9IHaMQ==
-----END PUBLIC KEY-----
`

func TestRequestName(t *testing.T) {
	block, _ := pem.Decode([]byte(publicKey))
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	require.NoError(t, err)
	name, err := requestName(key, ClientRequest("worker").Subject, usages(certv1.KubeAPIServerClientKubeletSignerName, key))
	require.NoError(t, err)
	require.Equal(t, "node-csr-eyc67Po4L5WxEzaGdJae2FBRhBzWUb0vYCbm8KQdSGI", name)
	other, err := requestName(key, ClientRequest("other").Subject, usages(certv1.KubeAPIServerClientKubeletSignerName, key))
	require.NoError(t, err)
	require.NotEqual(t, name, other)
	_, err = requestName("no key", pkix.Name{}, nil)
	require.Error(t, err)
}
