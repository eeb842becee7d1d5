package records

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/images/credentials"
)

// who returns the credential of a secret in a namespace.
func who(namespace, name, password string) *credentials.Credential {
	return &credentials.Credential{
		Auth:   &runtimeapi.AuthConfig{Username: "u", Password: password},
		Origin: credentials.Origin{Secret: &credentials.SecretRef{UID: namespace + name, Namespace: namespace, Name: name}},
	}
}

func account(name string) *credentials.Credential {
	return &credentials.Credential{
		Auth:   &runtimeapi.AuthConfig{Username: "u", Password: "p"},
		Origin: credentials.Origin{ServiceAccount: &credentials.ServiceAccountRef{UID: name, Namespace: "ns", Name: name}},
	}
}

func node() *credentials.Credential {
	return &credentials.Credential{Auth: &runtimeapi.AuthConfig{Username: "node", Password: "p"}}
}

func image(id string, names ...string) *runtimeapi.Image {
	return &runtimeapi.Image{Id: id, RepoTags: names}
}

func open(t *testing.T, dir string, policy Policy) *Store {
	t.Helper()
	b, err := Open(Config{Dir: dir, Policy: policy})
	require.NoError(t, err)
	return b
}

func pull(t *testing.T, b *Store, name string, found *runtimeapi.Image, c *credentials.Credential) {
	t.Helper()
	require.NoError(t, b.Begin(name, nil))
	require.NoError(t, b.Pulled(Pull{Image: name, Ref: found.Id, Credential: c, Status: found}))
}

func allowed(t *testing.T, b *Store, name, ref string, mine ...*credentials.Credential) bool {
	t.Helper()
	ok, err := b.Verify(t.Context(), name, ref, func(context.Context) (out []credentials.Credential, _ error) {
		for _, c := range mine {
			out = append(out, *c)
		}
		return out, nil
	})
	require.NoError(t, err)
	return ok
}

// C26: access to a present image requires matching credentials.
func TestVerify(t *testing.T) {
	const private = "r.io/private:v1"
	for _, tc := range []struct {
		name   string
		pulled *credentials.Credential // nil is anonymous
		as     string
		mine   []*credentials.Credential
		want   bool
	}{
		{"same secret", who("ns", "a", "p"), private, []*credentials.Credential{who("ns", "a", "p")}, true},
		{"no secret", who("ns", "a", "p"), private, nil, false},
		{"other secret", who("ns", "a", "p"), private, []*credentials.Credential{who("ns", "b", "q")}, false},
		{"same hash elsewhere", who("ns", "a", "p"), private, []*credentials.Credential{who("other", "b", "p")}, true},
		{"same secret, rotated", who("ns", "a", "p"), private, []*credentials.Credential{who("ns", "a", "q")}, true},
		{"second credential", who("ns", "a", "p"), private, []*credentials.Credential{who("ns", "b", "q"), who("ns", "a", "p")}, true},
		{"node's for a secret's", who("ns", "a", "p"), private, []*credentials.Credential{node()}, false},
		{"anonymous pull", nil, private, nil, true},
		{"node's pull", node(), private, nil, true},
		{"service account", account("sa"), private, []*credentials.Credential{account("sa")}, true},
		{"other service account", account("sa"), private, []*credentials.Credential{account("sb")}, false},
		{"other tag of the repository", who("ns", "a", "p"), "r.io/private:v2", []*credentials.Credential{who("ns", "a", "p")}, true},
		{"other repository", nil, "r.io/other:v1", nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			b := open(t, dir, "")
			pull(t, b, private, image("id", private), tc.pulled)
			for _, b := range []*Store{b, open(t, dir, "")} { // and after a restart
				require.Equal(t, tc.want, allowed(t, b, tc.as, "id", tc.mine...))
			}
			require.True(t, allowed(t, open(t, dir, NeverVerify), tc.as, "id"))
			require.True(t, allowed(t, b, tc.as, "preloaded"), "an image that nobody pulled")
			require.False(t, allowed(t, open(t, dir, AlwaysVerify), tc.as, "preloaded"))
		})
	}
}

// A match by hash or by coordinates adds both to the record.
func TestVerifyLearns(t *testing.T) {
	b := open(t, t.TempDir(), "")
	pull(t, b, "r.io/p:1", image("id", "r.io/p:1"), who("ns", "a", "p"))
	require.False(t, allowed(t, b, "r.io/p:1", "id", who("ns2", "b", "q")))
	require.True(t, allowed(t, b, "r.io/p:1", "id", who("ns2", "b", "p")), "by hash")
	require.True(t, allowed(t, b, "r.io/p:1", "id", who("ns2", "b", "q")), "by coordinates")
	require.True(t, allowed(t, b, "r.io/p:1", "id", who("ns3", "c", "q")), "by the new hash")
	var many access
	for i := range maxSecrets - 4 {
		many = join(many, accessOf(who("many", fmt.Sprint(i), "p")))
	}
	b.addAccess("id", "r.io/p", many)
	for _, name := range []string{"d", "e", "f"} {
		require.True(t, allowed(t, b, "r.io/p:1", "id", who("ns", name, "p")))
	}
	r, known, err := b.record("id")
	require.NoError(t, err)
	require.True(t, known)
	require.Len(t, r.CredentialMapping["r.io/p"].KubernetesSecrets, maxSecrets)
}

// Credentials are looked up only if needed. Those found in spite of an error count.
func TestVerifyLooksUpLazily(t *testing.T) {
	b := open(t, t.TempDir(), "")
	pull(t, b, "r.io/public:1", image("public", "r.io/public:1"), nil)
	pull(t, b, "r.io/private:1", image("private", "r.io/private:1"), who("ns", "a", "p"))
	broken := errors.New("broken")
	for _, tc := range []struct {
		image, ref string
		found      []credentials.Credential
		ok         bool
		err        error
	}{
		{"r.io/public:1", "public", nil, true, nil},
		{"r.io/preloaded:1", "preloaded", nil, true, nil},
		{"r.io/unknown:1", "private", nil, false, nil},
		{"r.io/private:1", "private", nil, false, broken},
		{"r.io/private:1", "private", []credentials.Credential{*who("ns", "a", "p")}, true, nil},
	} {
		ok, err := b.Verify(t.Context(), tc.image, tc.ref, func(context.Context) ([]credentials.Credential, error) { return tc.found, broken })
		require.Equal(t, tc.err, err, tc.image)
		require.Equal(t, tc.ok, ok, tc.image)
	}
}

// C27: a preloaded name stays open.
func TestPreloadedStaysOpen(t *testing.T) {
	both := image("id", "docker.io/library/preloaded:1", "r.io/private:1")
	t.Run("same digest from another repository", func(t *testing.T) {
		b := open(t, t.TempDir(), "")
		pull(t, b, "r.io/private:1", both, who("ns", "a", "p"))
		require.True(t, allowed(t, b, "preloaded:1", "id"))
		require.False(t, allowed(t, b, "r.io/private:1", "id"))
		require.False(t, allowed(t, open(t, filepath.Dir(string(b.pulled.folder)), AlwaysVerify), "preloaded:1", "id"))
	})
	t.Run("the same name again", func(t *testing.T) {
		b := open(t, t.TempDir(), "")
		require.NoError(t, b.Begin("preloaded:1", image("id", "docker.io/library/preloaded:1")))
		require.NoError(t, b.Pulled(Pull{Image: "preloaded:1", Ref: "id", Credential: who("ns", "a", "p"), Status: both}))
		require.True(t, allowed(t, b, "preloaded:1", "id"))
	})
	t.Run("not what is being pulled meanwhile", func(t *testing.T) {
		b := open(t, t.TempDir(), "")
		require.NoError(t, b.Begin("r.io/private:1", nil))
		require.NoError(t, b.Begin("s.io/private:1", nil))
		pulled := image("id", "r.io/private:1", "s.io/private:1", "t.io/preloaded:1")
		require.NoError(t, b.Pulled(Pull{Image: "r.io/private:1", Ref: "id", Credential: who("ns", "a", "p"), Status: pulled}))
		require.False(t, allowed(t, b, "s.io/private:1", "id"))
		require.True(t, allowed(t, b, "t.io/preloaded:1", "id"))
		require.NoError(t, b.Failed("s.io/private:1", false))
		require.False(t, allowed(t, b, "s.io/private:1", "id"))
	})
	t.Run("not what was pulled before", func(t *testing.T) {
		b := open(t, t.TempDir(), "")
		pull(t, b, "r.io/private:1", image("id", "r.io/private:1"), who("ns", "a", "p"))
		pull(t, b, "s.io/other:1", image("id", "r.io/private:1", "s.io/other:1"), nil)
		require.False(t, allowed(t, b, "r.io/private:1", "id"))
	})
}

// An image with a running or cancelled pull counts as pulled.
func TestIntents(t *testing.T) {
	b := open(t, t.TempDir(), "")
	const name = "r.io/private:1"
	begin := func() error { return b.Begin(name, nil) }
	fail := func() error { return b.Failed(name, false) }
	callOff := func() error { return b.Failed(name, true) }
	for i, step := range []struct {
		do   func() error
		open bool // the image, to all
	}{
		{func() error { return nil }, true}, {begin, false}, {begin, false}, {fail, false}, {fail, true},
		{begin, false}, {callOff, false}, {begin, false}, {fail, true},
	} {
		require.NoError(t, step.do())
		require.Equal(t, step.open, allowed(t, b, name, "id"), i)
	}
	require.Empty(t, b.unknownSince)
	require.Empty(t, b.running)
}

func TestTidy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		b := open(t, dir, "")
		pull(t, b, "r.io/kept:1", image("kept", "r.io/kept:1", "r.io/also:1"), nil)
		pull(t, b, "r.io/gone:1", image("gone", "r.io/gone:1", "r.io/also:2"), nil)
		require.Equal(t, 2, count(t, dir, "preloaded"))
		listing := []*runtimeapi.Image{image("kept", "r.io/kept:1", "r.io/also:1")}
		require.NoError(t, b.Tidy(listing, time.Now()))
		require.Equal(t, 2, count(t, dir, "pulled"), "what is newer than the list stays")
		time.Sleep(time.Minute)
		require.NoError(t, b.Tidy(listing, time.Now()))
		require.Equal(t, 1, count(t, dir, "pulled"))
		require.Equal(t, 1, count(t, dir, "preloaded"))

		require.NoError(t, b.Begin("late:1", nil))
		require.NoError(t, b.Failed("late:1", true))
		require.NoError(t, b.Begin("never:1", nil))
		require.NoError(t, b.Failed("never:1", true))
		require.NoError(t, b.Begin("running:1", nil))
		time.Sleep(5 * time.Minute)
		listing = append(listing, image("late", "docker.io/library/late:1"))
		require.NoError(t, b.Tidy(listing, time.Now()))
		require.False(t, allowed(t, b, "late:1", "late"))
		require.Equal(t, 3, count(t, dir, "pulling"))
		time.Sleep(5 * time.Minute)
		require.NoError(t, b.Tidy(listing, time.Now()))
		require.Equal(t, 1, count(t, dir, "pulling"), "the running one")
		require.False(t, allowed(t, b, "late:1", "late"))
		require.True(t, allowed(t, b, "never:1", "never"))

		require.NoError(t, os.WriteFile(filepath.Join(dir, "pulled", "sha256-00"), []byte("{"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "pulling", "sha256-00"), []byte("{"), 0o600))
		b = open(t, dir, "")
		require.NoError(t, b.Tidy(nil, time.Now()), "an unreadable file stays")
		require.Equal(t, 1, count(t, dir, "pulled"))
	})
}

func count(t *testing.T, dir, sub string) int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, sub))
	require.NoError(t, err)
	return len(entries)
}

// The files have the kubelet's format.
func TestFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its clock begins at midnight of 2000-01-01
		dir := filepath.Join(t.TempDir(), "image_manager")
		b := open(t, dir, "")
		require.NoError(t, b.Begin("testing:v1", nil))
		file := filepath.Join(dir, "pulling", "sha256-b6f83d846da9835f19f4905dc8ad536842a35dce3f7d12820b9f056cd2fe906b")
		require.Equal(t, `{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","image":"testing:v1"}`, content(t, file))
		require.NoError(t, b.Pulled(Pull{Image: "testing:v1", Ref: "sha256:1", Credential: who("ns", "a", "p")}))
		require.Equal(t, `{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","lastUpdatedTime":"2000-01-01T00:00:00Z",`+
			`"imageRef":"sha256:1","credentialMapping":{"testing":{"kubernetesSecrets":[{"uid":"nsa","namespace":"ns","name":"a",`+
			`"credentialHash":"`+who("", "", "p").Hash()+`"}]}}}`, content(t, b.pulled.folder.path("sha256:1")))
		for _, sub := range []string{".", "pulling", "pulled", "preloaded"} {
			info, err := os.Stat(filepath.Join(dir, sub))
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
		}
	})
}

func content(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(data)
}

// Records of the previous version are supported. With any other version the image must be pulled,
// which replaces the record.
func TestForeignRecords(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, "")
	old := `{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1alpha1","lastUpdatedTime":"2026-01-01T00:00:00Z",` +
		`"imageRef":"id","credentialMapping":{"r.io/x":{"nodePodsAccessible":true}}}`
	file := b.pulled.folder.path("id")
	require.NoError(t, os.WriteFile(file, []byte(old), 0o600))
	require.True(t, allowed(t, open(t, dir, ""), "r.io/x:1", "id"))
	require.NoError(t, os.Rename(file, b.pulled.folder.path("another")))
	_, err := open(t, dir, "").Verify(t.Context(), "r.io/x:1", "another", nil)
	require.ErrorContains(t, err, "the file name does not match the content")
	for _, bad := range []string{"", "{", "[]", strings.Replace(old, "v1alpha1", "v9", 1), strings.Replace(old, `"id"`, `""`, 1)} {
		require.NoError(t, os.WriteFile(file, []byte(bad), 0o600))
		b := open(t, dir, "")
		ok, err := b.Verify(t.Context(), "r.io/x:1", "id", nil)
		require.Error(t, err, bad)
		require.False(t, ok)
		pull(t, b, "r.io/x:1", image("id", "r.io/x:1"), nil)
		require.True(t, allowed(t, b, "r.io/x:1", "id"))
		require.True(t, allowed(t, open(t, dir, ""), "r.io/x:1", "id"))
	}
}

func TestOpenRefuses(t *testing.T) {
	_, err := Open(Config{})
	require.ErrorContains(t, err, "Config.Dir")
	_, err = Open(Config{Dir: t.TempDir(), Policy: "x"})
	require.ErrorContains(t, err, "Config.Policy")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = Open(Config{Dir: file})
	require.ErrorContains(t, err, file)
}

func TestChecked(t *testing.T) {
	var results []Result
	b, err := Open(Config{Dir: t.TempDir(), OnCheck: func(r Result) { results = append(results, r) }})
	require.NoError(t, err)
	pull(t, b, "r.io/x:1", image("id", "r.io/x:1"), nil)
	allowed(t, b, "r.io/x:1", "id")
	allowed(t, b, "r.io/y:1", "id")
	allowed(t, b, "r.io/x:1", "other")
	_, err = b.Verify(t.Context(), "UPPER", "id", nil)
	require.Error(t, err)
	require.Equal(t, []Result{ResultRecorded, ResultMustAuthenticate, ResultAllowed, ResultError}, results)
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","imageRef":"id","credentialMapping":{"a":{}}}`))
	f.Add([]byte(`{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","image":"a:1"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, r, err := parseRecord(data); err == nil {
			require.NotEmpty(t, r.ImageRef)
			more, _ := merged(r, "a", accessOf(who("ns", "a", "p")), time.Now())
			ok, _ := opened(more.CredentialMapping["a"], []credentials.Credential{*who("ns", "a", "p")})
			require.True(t, ok || more.CredentialMapping["a"].NodePodsAccessible)
		}
		if _, i, err := parseIntent(data); err == nil {
			require.NotEmpty(t, i.Image)
		}
	})
}

func TestPolicies(t *testing.T) {
	for _, tc := range []struct {
		policy                    Policy
		preloaded, pulled, listed bool // whether verification is required
	}{
		{"", false, true, true},
		{NeverVerify, false, false, false},
		{NeverVerifyPreloadedImages, false, true, true},
		{NeverVerifyAllowlistedImages, true, true, false},
		{AlwaysVerify, true, true, true},
	} {
		var list []string
		if tc.policy == NeverVerifyAllowlistedImages {
			list = []string{"r.io/listed"}
		}
		r, err := newRule(tc.policy, list)
		require.NoError(t, err)
		require.Equal(t, tc.preloaded, r.verifies("r.io/x", false), tc.policy)
		require.Equal(t, tc.pulled, r.verifies("r.io/x", true), tc.policy)
		require.Equal(t, tc.listed, r.verifies("r.io/listed", true), tc.policy)
	}
}

func TestAllowlist(t *testing.T) {
	r, err := newRule(NeverVerifyAllowlistedImages, []string{"r.io/team/*", "busybox", "r.io:5000/x", "s.io/*"})
	require.NoError(t, err)
	for repository, want := range map[string]bool{
		"r.io/team/a": true, "r.io/team/a/b": true, "r.io/team": false, "r.io/teamwork/a": false,
		"busybox": true, "library/busybox": false, "r.io:5000/x": true, "r.io:5000/x/y": false, "s.io/x": true, "s.iox/y": false,
	} {
		require.Equal(t, want, r.listed(repository), repository)
	}
	for _, bad := range []string{"", " r.io/x", "r.io/x ", "r.io/x:v1", "r.io/x@sha256:00", "*", "/*", "r.io/*/x", "r.io/x*", "*.io/x", "UPPER"} {
		_, err := newRule(NeverVerifyAllowlistedImages, []string{"ok", bad})
		require.ErrorContains(t, err, "Config.Allowlist[1]", bad)
		require.Error(t, CheckAllowlistEntry(bad), bad)
	}
	require.NoError(t, CheckAllowlistEntry("r.io/team/*"))
	_, err = newRule("Sometimes", nil)
	require.ErrorContains(t, err, `Config.Policy "Sometimes"`)
	_, err = newRule(AlwaysVerify, []string{"r.io/x"})
	require.ErrorContains(t, err, "Config.Allowlist needs")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
