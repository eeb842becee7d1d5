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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/volume"
)

const pemText = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

func jwt(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".x"
}

// heads has the first lines of a manifest of each kind.
var heads = map[string]string{
	"configmaps":   "apiVersion: v1\nkind: ConfigMap\n",
	"secrets":      "apiVersion: v1\nkind: Secret\n",
	"trustbundles": "apiVersion: certificates.k8s.io/v1beta1\nkind: ClusterTrustBundle\n",
	"tokens":       "apiVersion: authentication.k8s.io/v1\nkind: TokenRequest\n",
	"csidrivers":   "apiVersion: storage.k8s.io/v1\nkind: CSIDriver\n",
}

func TestDecode(t *testing.T) {
	good := func(file, text string) any {
		o, k, err := objectOf(file)
		require.NoError(t, err)
		folder, _, _ := strings.Cut(file, "/")
		value, _, err := k.object([]byte(heads[folder]+text), o)
		require.NoError(t, err)
		return value
	}
	s := good("secrets/ns/s.yaml", "data: {a: YQ==, b: Yg==}\nstringData: {a: c}\n").(*v1.Secret)
	require.Equal(t, map[string][]byte{"a": []byte("c"), "b": []byte("b")}, s.Data)
	require.Equal(t, "ns/s", s.Namespace+"/"+s.Name)
	require.Equal(t, v1.SecretTypeOpaque, s.Type)
	require.Equal(t, v1.SecretTypeTLS, good("secrets/ns/s.yaml", "type: kubernetes.io/tls\n").(*v1.Secret).Type)
	good("configmaps/ns/web.yaml", "data: {a: "+strings.Repeat("x", 1<<20)+"}\n") // the largest permitted size
	m := good("configmaps/ns/web.yaml", "metadata: {name: web, namespace: ns}\n").(*v1.ConfigMap)
	require.Equal(t, metav1.ObjectMeta{Namespace: "ns", Name: "web"}, m.ObjectMeta, "metadata may repeat the path")
	m = good("configmaps/ns/web.yaml", "data: &d {a: b, c: d}\nbinaryData: {}\nmetadata: {labels: {<<: *d, c: e}}\n").(*v1.ConfigMap)
	require.Equal(t, map[string]string{"a": "b", "c": "e"}, m.Labels, "a merge key does not replace a field")
	b := good("trustbundles/example.com:signer:a.yaml", "metadata: {labels: {a: b}}\nspec:\n  signerName: example.com/signer\n  trustBundle: "+`"`+strings.ReplaceAll(pemText, "\n", `\n`)+`"`).(namedBundle)
	require.Equal(t, bundle{"example.com/signer", map[string]string{"a": "b"}, pemText}, b.bundle)
	token := good("tokens/ns/sa.yaml", "spec: {audiences: [a]}\nstatus: {token: "+jwt(`{"iat":100,"exp":200}`)+"}").(tokenFile)
	require.Equal(t, []time.Time{time.Unix(100, 0), time.Unix(200, 0)}, []time.Time{token.Issued, token.Expires})
	token = good("tokens/ns/sa.yaml", "status: {token: plain, expirationTimestamp: '2030-01-01T00:00:00Z'}").(tokenFile)
	require.Equal(t, 2030, token.Expires.Year())
	require.True(t, token.Issued.IsZero())
	for _, token := range []string{"a.b", "a.?.c", "a.e30.c", jwt("[]"), jwt("{}")} {
		issued, expires := times(token)
		require.True(t, issued.IsZero() && expires.IsZero(), token)
	}
}

// The error for an invalid manifest has one line and a bounded length.
func TestDecodeRejects(t *testing.T) {
	mib := strings.Repeat("x", 1<<20)
	refuse := func(kind, text, want string) {
		t.Helper()
		_, _, err := kinds[kind].object([]byte(text), webObject)
		require.ErrorContains(t, err, want)
		require.LessOrEqual(t, len(err.Error()), 700)
		require.NotContains(t, err.Error(), "\n")
		require.True(t, utf8.ValidString(err.Error()))
	}
	refuse("configmaps", "[]", "is not an object")
	refuse("configmaps", "apiVersion: v1\nkind: Pod\n", `kind: "Pod": must be`)
	refuse("configmaps", "apiVersion: v2\nkind: ConfigMap\n", `apiVersion: "v2": must be "v1"`)
	for _, c := range []struct{ kind, text, want string }{
		{"configmaps", "data: {a: \"\x00\"}", "is not text"},
		{"configmaps", "Data: {a: b}\n", `unknown field "Data"`},
		{"configmaps", "data: {a: b}\ndata: {a: b}\n", `"data"`},
		{"configmaps", "data: {<<: {a: b}, a: c, a: d}\n", `key "a" already set in map`},
		{"configmaps", "data: {a: b, a: c}\n", `"a" already set`},
		{"configmaps", "data: {a: [1]}\n", "into Go struct field"},
		{"configmaps", "binaryData: {a: '?'}\n", "illegal base64"},
		{"configmaps", "data: {a/b: c}\n", `data: "a/b" is not a valid key`},
		{"configmaps", "data: {..: c}\n", `data: ".." is not a valid key`},
		{"configmaps", "data: {" + strings.Repeat("k", 300) + ": c}\n", "is not a valid key: must be no more than 253"},
		{"configmaps", "data: {" + strings.Repeat("k", 1<<20) + ": c}\n", "yaml:"},
		{"configmaps", strings.Repeat("é", 600) + ": 1\n", "..."},
		{"configmaps", "data: {a: b}\nbinaryData: {a: YQ==}\n", "binaryData[a]: the key is in data too"},
		{"configmaps", "binaryData: {a/b: YQ==}\n", `binaryData: "a/b" is not a valid key`},
		{"configmaps", "data: {a: x" + mib + "}\n", "data: 1048577 bytes, more than the limit"},
		{"configmaps", "data: {a: b}\nbinaryData: {b: " + base64.StdEncoding.EncodeToString([]byte(mib)) + "}\n", "data: 1048577 bytes, more than the limit"},
		{"configmaps", "metadata: {name: other}\n", `metadata.name: "other": must be "web"`},
		{"configmaps", "metadata: {namespace: other}\n", `metadata.namespace: "other"`},
		{"secrets", "Data: {a: b}\n", `unknown field "Data"`},
		{"secrets", "stringData: {a/b: c}\n", `data: "a/b" is not a valid key`},
		{"secrets", "stringData: {a: b, b: " + mib + "}\n", "data: 1048577 bytes, more than the limit"},
		{"trustbundles", "spec: {trustBundle: ''}", "spec.trustBundle: contains no certificate"},
		{"trustbundles", "spec: {trustBundle: 'x'}", "contains text that is not PEM"},
		{"trustbundles", `spec: {trustBundle: "-----BEGIN KEY-----\nAAAA\n-----END KEY-----\n"}`, `"KEY" is not a plain`},
		{"trustbundles", "spec: {trustBundle: '" + strings.ReplaceAll(strings.Repeat(pemText, (1<<20)/len(pemText)+1), "\n", "\n\n") + "'}", "more than the limit of 1048576"},
		{"trustbundles", "x: y\n", `unknown field "x"`},
		{"tokens", "", "status.token: required"},
		{"tokens", "x: y\n", `unknown field "x"`},
		{"csidrivers", "x: y\n", `unknown field "x"`},
		{"csidrivers", "spec: {volumeLifecycleModes: [Often]}", `spec.volumeLifecycleModes[0]: "Often": must be`},
		{"csidrivers", "spec: {fsGroupPolicy: Some}", `spec.fsGroupPolicy: "Some": must be one of`},
		{"csidrivers", "spec: {tokenRequests: [{audience: a, expirationSeconds: 599}]}", "spec.tokenRequests[0].expirationSeconds: 599: must be at "},
	} {
		if c.kind == "configmaps" || c.kind == "secrets" {
			refuse(c.kind, heads[c.kind]+c.text, c.want)
			continue
		}
		_, _, err := kinds[c.kind].object([]byte(heads[c.kind]+c.text), volume.Object{})
		require.ErrorContains(t, err, c.want)
	}
}

// Every value that the API server accepts is accepted, and a CSIDriver is never immutable.
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

// A text of certificates must have no other content.
func TestCertificates(t *testing.T) {
	for text, want := range map[string]string{
		"": "contains no certificate", " \n": "contains no certificate", "text": "contains text that is not PEM", pemText + "text": "contains text that is not PEM", pemText + "\n": "",
		strings.ReplaceAll(pemText, "CERTIFICATE", "PRIVATE KEY"):                           `PEM block "PRIVATE KEY" is not a plain certificate`,
		strings.Replace(pemText, "-----\nAAAA", "-----\nProc-Type: 4,ENCRYPTED\n\nAAAA", 1): `PEM block "CERTIFICATE" is not a plain certificate`,
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
