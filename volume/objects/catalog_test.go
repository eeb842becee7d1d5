package objects

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
)

const (
	webFile = "configmaps/ns/web.yaml"
	web     = "apiVersion: v1\nkind: ConfigMap\ndata: {colour: blue}\n"
)

var webObject = volume.Object{Kind: KindConfigMap, Namespace: "ns", Name: "web"}

// world feeds a catalog.
type world struct {
	t     *testing.T
	c     *catalog
	now   time.Time
	files map[string]reading
	hold  time.Duration
	again time.Duration
}

func newWorld(t *testing.T) *world {
	return &world{t: t, c: newCatalog(), now: time.Unix(1e9, 0), files: map[string]reading{}}
}

func (w *world) put(file, text string) { w.files[file] = reading{data: []byte(text)} }

func (w *world) apply(folders map[string]Problem) (changed []volume.Object) {
	changed, w.again = w.c.apply(snapshot{w.files, folders}, func(string, time.Time) time.Duration { return w.hold }, w.now)
	return changed
}

func (w *world) colour() string {
	value, err := w.c.find(webObject)
	if err != nil {
		return err.Error()
	}
	return value.(*v1.ConfigMap).Data["colour"]
}

func TestLastGoodVersionStays(t *testing.T) {
	w := newWorld(t)
	require.Empty(t, w.apply(nil))
	require.Equal(t, `configmap "ns/web" not found`, w.colour())

	w.put(webFile, "kind: [")
	require.Empty(t, w.apply(nil))
	require.Contains(t, w.colour(), "ConfigMap ns/web: configmaps/ns/web.yaml: yaml:", "what is wrong is not missing")
	require.Equal(t, []volume.Object{webObject}, func() []volume.Object { w.put(webFile, web); return w.apply(nil) }())
	require.Empty(t, w.apply(nil))
	require.Equal(t, "blue", w.colour())

	w.put(webFile, strings.Replace(web, "data", "dat", 1))
	require.Empty(t, w.apply(nil))
	require.Equal(t, "blue", w.colour())
	problems := w.c.problems()
	require.Len(t, problems, 1)
	require.Equal(t, Problem{Path: webFile, Message: `strict decoding error: unknown field "dat"`, KeptLastGood: true}, problems[0])

	w.files[webFile] = reading{problem: "is odd"}
	require.Empty(t, w.apply(nil))
	require.Equal(t, "is odd", w.c.problems()[0].Message)
	w.files[webFile] = reading{silent: true}
	require.Empty(t, w.apply(nil))
	require.True(t, w.c.problems()[0].NoAnswer)
	require.Equal(t, retry, w.again)
	require.Equal(t, "blue", w.colour())

	w.put(webFile, strings.Replace(web, "blue", "red", 1))
	w.hold = time.Second
	require.Empty(t, w.apply(nil), "it is being written")
	require.Equal(t, time.Second, w.again)
	require.Equal(t, "blue", w.colour())
	w.hold = 1
	require.Empty(t, w.apply(nil), "it is still being written")
	require.Equal(t, time.Millisecond, w.again)
	w.hold = 0
	require.Len(t, w.apply(nil), 1)
	require.Equal(t, "red", w.colour())
	require.Empty(t, w.c.problems())
}

// A file that could not be read is read again, also if it is as it was before that.
func TestGoodAgainAsItWas(t *testing.T) {
	w := newWorld(t)
	good := reading{data: []byte(web), stamp: stamp{Size: 7}}
	w.files[webFile] = good
	require.Len(t, w.apply(nil), 1)
	known, _ := w.c.known(webFile)
	require.Equal(t, good.stamp, known)
	w.files[webFile] = reading{problem: "is odd"}
	require.Empty(t, w.apply(nil))
	known, _ = w.c.known(webFile)
	require.Zero(t, known)
	w.files[webFile] = good
	require.Empty(t, w.apply(nil), "it is the same object")
	require.Zero(t, w.again, "there is nothing to come back for")
	require.Empty(t, w.c.problems())
}

func TestGone(t *testing.T) {
	w := newWorld(t)
	w.put(webFile, web)
	require.Len(t, w.apply(nil), 1)
	delete(w.files, webFile)
	require.Empty(t, w.apply(nil))
	require.Equal(t, settle, w.again)
	w.put(webFile, web)
	w.now = w.now.Add(time.Hour)
	require.Empty(t, w.apply(nil), "it was moved away and back")
	delete(w.files, webFile)
	for _, unknown := range []string{".", "configmaps", "configmaps/ns"} {
		require.Empty(t, w.apply(map[string]Problem{unknown: {Path: unknown, Message: "cannot be read", NoAnswer: true}}))
		w.now = w.now.Add(time.Hour)
		require.Equal(t, "blue", w.colour(), "what cannot be listed is not gone")
		require.Equal(t, retry, w.again)
		_, err := w.c.find(volume.Object{Kind: KindConfigMap, Namespace: "ns", Name: "other"})
		require.ErrorContains(t, err, "it is not known whether configmaps/ns/other.yaml exists")
		require.False(t, IsNotFound(err))
	}
	w.files[webFile] = reading{vanished: true}
	require.Empty(t, w.apply(nil))
	w.now = w.now.Add(settle - 1)
	require.Empty(t, w.apply(nil))
	w.now = w.now.Add(1)
	require.Equal(t, []volume.Object{webObject}, w.apply(nil))
	require.Equal(t, `configmap "ns/web" not found`, w.colour())
	require.Empty(t, w.c.files)

	w.put(webFile, web)
	w.hold = time.Second
	require.Empty(t, w.apply(nil))
	require.Equal(t, w.hold, w.again)
	require.Equal(t, "ConfigMap ns/web: configmaps/ns/web.yaml: is still being written", w.colour())
}

func TestImmutableIsKnown(t *testing.T) {
	w := newWorld(t)
	w.put(webFile, web+"immutable: true\n")
	require.Len(t, w.apply(nil), 1)
	_, immutable := w.c.known(webFile)
	require.True(t, immutable)
	w.files[webFile] = reading{same: true}
	require.Empty(t, w.apply(nil))
	require.Equal(t, "blue", w.colour())
	delete(w.files, webFile)
	w.apply(nil)
	w.now = w.now.Add(settle)
	require.Len(t, w.apply(nil), 1)
	_, immutable = w.c.known(webFile)
	require.False(t, immutable)
}

func TestStrays(t *testing.T) {
	w := newWorld(t)
	for _, file := range []string{"README", "config/ns/a.yaml", "configmaps/a.yaml", "configmaps/ns/a.yml", "configmaps/NS/a.yaml", "configmaps/ns/A.yaml", "trustbundles/ns/a.yaml", "secrets/ns/a:b.yaml"} {
		w.put(file, "")
	}
	require.Empty(t, w.apply(nil))
	var got []string
	for _, p := range w.c.problems() {
		got = append(got, p.Path+" "+p.Message)
	}
	require.Len(t, got, len(w.files))
	all := strings.Join(got, "\n")
	for _, want := range []string{
		`README "README" is no folder of objects: they are configmaps, csidrivers, secrets, tokens, trustbundles`, "to be 2 folders deep",
		"does not end with .yaml", `"NS" is no namespace`, `"A" is no name of a ConfigMap`, "to be 1 folders deep", `"a:b" is no name of a Secret`,
	} {
		require.Contains(t, all, want)
	}
}

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
	require.EqualValues(t, []int64{100, 200}, []int64{token.Issued.Unix(), token.Expires.Unix()})
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
	for kind, text := range map[string]string{
		"trustbundles": "apiVersion: certificates.k8s.io/v1beta1\nkind: ClusterTrustBundle\nx: y\n",
		"tokens":       "apiVersion: authentication.k8s.io/v1\nkind: TokenRequest\nx: y\n",
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
