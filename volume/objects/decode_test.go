package objects

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/podwright/podwright/volume"
)

const pemText = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

func jwt(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".x"
}

func TestDecode(t *testing.T) {
	good := func(file, text string) any {
		o, k, err := objectOf(file)
		require.NoError(t, err)
		value, _, err := k.object([]byte(text), o)
		require.NoError(t, err)
		return value
	}
	s := good("secrets/ns/s.yaml", `{"apiVersion":"v1","kind":"Secret","data":{"a":"YQ==","b":"Yg=="},"stringData":{"a":"c"}}`).(*v1.Secret)
	require.Equal(t, map[string][]byte{"a": []byte("c"), "b": []byte("b")}, s.Data)
	require.Equal(t, "ns/s", s.Namespace+"/"+s.Name)
	require.Equal(t, v1.SecretTypeOpaque, s.Type)
	b := good("trustbundles/example.com:signer:a.yaml", "apiVersion: certificates.k8s.io/v1beta1\nkind: ClusterTrustBundle\nmetadata: {labels: {a: b}}\nspec:\n  signerName: example.com/signer\n  trustBundle: "+`"`+strings.ReplaceAll(pemText, "\n", `\n`)+`"`).(heldBundle)
	require.Equal(t, bundle{"example.com/signer", map[string]string{"a": "b"}, pemText}, b.bundle)
	token := good("tokens/ns/sa.yaml", "apiVersion: authentication.k8s.io/v1\nkind: TokenRequest\nspec: {audiences: [a]}\nstatus: {token: "+jwt(`{"iat":100,"exp":200}`)+"}").(heldTokenFile)
	require.Equal(t, []time.Time{time.Unix(100, 0), time.Unix(200, 0)}, []time.Time{token.Issued, token.Expires})
	token = good("tokens/ns/sa.yaml", "apiVersion: authentication.k8s.io/v1\nkind: TokenRequest\nstatus: {token: plain, expirationTimestamp: '2030-01-01T00:00:00Z'}").(heldTokenFile)
	require.Equal(t, 2030, token.Expires.Year())
	require.True(t, token.Issued.IsZero())

	head := "apiVersion: v1\nkind: ConfigMap\n"
	for want, text := range map[string]string{
		"is not text":                               head + "data: {a: \"\x00\"}",
		"is not an object":                          "[]",
		`kind: "Pod": must be`:                      "apiVersion: v1\nkind: Pod\n",
		`apiVersion: "v2": must be "v1"`:            "apiVersion: v2\nkind: ConfigMap\n",
		`unknown field "Data"`:                      head + "Data: {a: b}\n",
		`"data"`:                                    head + "data: {a: b}\ndata: {a: b}\n",
		`"a" already set`:                           head + "data: {a: b, a: c}\n",
		"into Go struct field":                      head + "data: {a: [1]}\n",
		"illegal base64":                            head + "binaryData: {a: '?'}\n",
		"data: \"a/b\" is no valid key":             head + "data: {a/b: c}\n",
		`data: ".." is no valid key`:                head + "data: {..: c}\n",
		"is no valid key: must be no more than 253": head + "data: {" + strings.Repeat("k", 300) + ": c}\n",
		"yaml:":                                 head + "data: {" + strings.Repeat("k", 1<<20) + ": c}\n",
		"binaryData[a]: the key is in data too": head + "data: {a: b}\nbinaryData: {a: YQ==}\n",
		"data: 1048577 bytes, more than the limit": head + "data: {a: " + strings.Repeat("x", 1<<20+1) + "}\n",
		`metadata.name: "other": the file's place`: head + "metadata: {name: other}\n",
		`metadata.namespace: "other"`:              head + "metadata: {namespace: other}\n",
	} {
		_, _, err := kinds["configmaps"].object([]byte(text), webObject)
		require.ErrorContains(t, err, want)
		require.Less(t, len(err.Error()), 700)
		require.NotContains(t, err.Error(), "\n")
	}
	for want, text := range map[string]string{
		"spec.trustBundle: it has no certificate": "''",
		"not all of it is PEM":                    "'x'",
		`"KEY" is no plain`:                       `"-----BEGIN KEY-----\nAAAA\n-----END KEY-----\n"`,
	} {
		_, _, err := kinds["trustbundles"].object([]byte("apiVersion: certificates.k8s.io/v1beta1\nkind: ClusterTrustBundle\nspec: {trustBundle: "+text+"}"), volume.Object{})
		require.ErrorContains(t, err, want)
	}
	for want, text := range map[string]string{
		`spec.volumeLifecycleModes[0]: "Often": must be`:            "{volumeLifecycleModes: [Often]}",
		`spec.fsGroupPolicy: "Some": must be one of`:                "{fsGroupPolicy: Some}",
		"spec.tokenRequests[0].expirationSeconds: 599: must be at ": "{tokenRequests: [{audience: a, expirationSeconds: 599}]}",
	} {
		_, _, err := kinds["csidrivers"].object([]byte("apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nspec: "+text), volume.Object{})
		require.ErrorContains(t, err, want)
	}
	mib := strings.Repeat("x", 1<<20)
	for want, text := range map[string]string{
		"binaryData: \"a/b\" is no valid key":      head + "binaryData: {a/b: YQ==}\n",
		"data: 1048577 bytes, more than the limit": head + "data: {a: b}\nbinaryData: {b: " + base64.StdEncoding.EncodeToString([]byte(mib)) + "}\n",
	} {
		_, _, err := kinds["configmaps"].object([]byte(text), webObject)
		require.ErrorContains(t, err, want)
	}
	_, immutable, err := kinds["configmaps"].object([]byte(head+"immutable: true\ndata: {a: "+mib+"}\n"), webObject)
	require.NoError(t, err, "the most that there may be")
	require.True(t, immutable)
	_, immutable, err = kinds["configmaps"].object([]byte(head+"immutable: false\n"), webObject)
	require.NoError(t, err)
	require.False(t, immutable)
	head = "apiVersion: v1\nkind: Secret\n"
	for want, text := range map[string]string{
		`unknown field "Data"`:                     head + "Data: {a: b}\n",
		"data: \"a/b\" is no valid key":            head + "stringData: {a/b: c}\n",
		"data: 1048577 bytes, more than the limit": head + "stringData: {a: b, b: " + mib + "}\n",
	} {
		_, _, err := kinds["secrets"].object([]byte(text), webObject)
		require.ErrorContains(t, err, want)
	}
	value, immutable, err := kinds["secrets"].object([]byte(head+"immutable: true\ntype: kubernetes.io/tls\n"), webObject)
	require.NoError(t, err)
	require.True(t, immutable)
	require.Equal(t, v1.SecretTypeTLS, value.(*v1.Secret).Type)
	_, immutable, err = kinds["secrets"].object([]byte(head+"immutable: false\n"), webObject)
	require.NoError(t, err)
	require.False(t, immutable)
	for kind, text := range map[string]string{
		"trustbundles": "apiVersion: certificates.k8s.io/v1beta1\nkind: ClusterTrustBundle\nx: y\n",
		"tokens":       "apiVersion: authentication.k8s.io/v1\nkind: TokenRequest\nx: y\n",
		"csidrivers":   "apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nx: y\n",
	} {
		_, _, err := kinds[kind].object([]byte(text), volume.Object{})
		require.ErrorContains(t, err, `unknown field "x"`)
	}
	large := "'" + strings.ReplaceAll(strings.Repeat(pemText, (1<<20)/len(pemText)+1), "\n", "\n\n") + "'"
	_, _, err = kinds["trustbundles"].object([]byte("apiVersion: certificates.k8s.io/v1beta1\nkind: ClusterTrustBundle\nspec: {trustBundle: "+large+"}"), volume.Object{})
	require.ErrorContains(t, err, "spec.trustBundle: ")
	require.ErrorContains(t, err, "more than the limit of 1048576")
	_, _, err = kinds["configmaps"].object([]byte("apiVersion: v1\nkind: ConfigMap\n"+strings.Repeat("é", 600)+": 1\n"), webObject)
	require.ErrorContains(t, err, "...")
	require.LessOrEqual(t, len(err.Error()), 503)
	require.True(t, utf8.ValidString(err.Error()))
	for _, token := range []string{"a.b", "a.?.c", "a.e30.c", jwt("[]"), jwt("{}")} {
		issued, expires := times(token)
		require.True(t, issued.IsZero() && expires.IsZero(), token)
	}
	_, _, err = kinds["tokens"].object([]byte("apiVersion: authentication.k8s.io/v1\nkind: TokenRequest\n"), volume.Object{})
	require.ErrorContains(t, err, "status.token: required")
}

// What an API server takes is taken, and what is said of a driver may change.
func TestDecodeCSIDriver(t *testing.T) {
	for _, spec := range []string{
		"{}",
		"{volumeLifecycleModes: [Persistent, Ephemeral]}",
		"{fsGroupPolicy: ReadWriteOnceWithFSType}",
		"{fsGroupPolicy: File}",
		"{fsGroupPolicy: None}",
		"{tokenRequests: [{audience: a}, {audience: b, expirationSeconds: 600}]}",
	} {
		value, immutable, err := kinds["csidrivers"].object([]byte("apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nspec: "+spec), volume.Object{Name: "d"})
		require.NoError(t, err, spec)
		require.False(t, immutable)
		require.Equal(t, "d", value.(*storagev1.CSIDriver).Name)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("configmaps", web)
	f.Add("secrets", "apiVersion: v1\nkind: Secret\nstringData: {a: b}\n")
	f.Add("tokens", "apiVersion: authentication.k8s.io/v1\nkind: TokenRequest\nstatus: {token: "+jwt(`{"exp":1e99}`)+"}")
	f.Add("trustbundles", "apiVersion: certificates.k8s.io/v1beta1\nkind: ClusterTrustBundle\nspec: {trustBundle: |\n  "+strings.ReplaceAll(pemText, "\n", "\n  ")+"}")
	f.Add("csidrivers", "apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nspec: {volumeLifecycleModes: [Ephemeral], fsGroupPolicy: File}\n")
	f.Fuzz(func(t *testing.T, folder, text string) {
		k, ok := kinds[folder]
		if !ok {
			return
		}
		value, _, err := k.object([]byte(text), volume.Object{Kind: k.reported, Namespace: "ns", Name: "n"})
		require.Equal(t, err == nil, value != nil)
	})
}

// A text of certificates has nothing else in it.
func TestCertificates(t *testing.T) {
	for text, want := range map[string]string{
		"": "it has no certificate", " \n": "it has no certificate", "text": "not all of it is PEM", pemText + "text": "not all of it is PEM", pemText + "\n": "",
		strings.ReplaceAll(pemText, "CERTIFICATE", "PRIVATE KEY"):                           `a block "PRIVATE KEY" is no plain certificate`,
		strings.Replace(pemText, "-----\nAAAA", "-----\nProc-Type: 4,ENCRYPTED\n\nAAAA", 1): `a block "CERTIFICATE" is no plain certificate`,
	} {
		der, err := Certificates(text)
		if want != "" {
			require.EqualError(t, err, want, text)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, []string{"\x00\x00\x00"}, der)
	}
	der, err := Certificates(pemText + pemText)
	require.NoError(t, err)
	require.Len(t, der, 2)
}
