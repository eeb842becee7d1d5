package credentials

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
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
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func users(found []Credential) string {
	var names []string
	for _, c := range found {
		names = append(names, c.Auth.Username)
	}
	return strings.Join(names, " ")
}

// 6.2: the most specific place comes first; host parts may be patterns; the port must be equal;
// the path is a prefix.
func TestKeyringLookup(t *testing.T) {
	ring, err := ParseDockerConfig([]byte(`{"auths": {
		"https://index.docker.io/v1/": {"auth": "` + encoded("hub:p:w") + `"},
		"registry.example.com": {"username": "all", "password": "p"},
		"registry.example.com/team": {"username": "team", "password": "p"},
		"https://registry.example.com/v2/team/app": {"username": "app", "password": "p"},
		"*.wild.example.com": {"username": "wild", "password": "p"},
		"127.0.0.1:5000": {"username": "local", "password": "p"},
		"nothing.example.com": {},
		"token.example.com": {"identitytoken": "t"}
	}, "credsStore": "x"}`))
	require.NoError(t, err)
	for image, want := range map[string]string{
		"registry.example.com/team/app:v1": "app team all",
		"registry.example.com/team/other":  "team all",
		"registry.example.com/x@sha256:aa": "all",
		"registry.example.com:5000/x":      "",
		"example.com/x":                    "",
		"a.wild.example.com/x":             "wild",
		"a.b.wild.example.com/x":           "",
		"127.0.0.1:5000/x:v1":              "local",
		"127.0.0.1/x":                      "",
		"nothing.example.com/x":            "",
		"busybox:latest":                   "hub",
		"library/busybox:1.36":             "hub",
		"docker.io/library/busybox":        "hub",
		"index.docker.io/library/busybox":  "hub",
		"localhost/x":                      "",
	} {
		require.Equal(t, want, users(ring.Lookup(image)), image)
	}
	require.Equal(t, "p:w", ring.Lookup("busybox")[0].Auth.Password)
	require.Equal(t, "t", ring.Lookup("token.example.com/x")[0].Auth.IdentityToken)
	require.Empty(t, Keyring{}.Lookup("busybox"))
}

func TestParseDockerConfig(t *testing.T) {
	old, err := ParseDockerConfig([]byte(`{"https://registry.example.com": {"auth": "` + encoded("me:secret") + `", "email": "x"}}`))
	require.NoError(t, err)
	require.Equal(t, "me", users(old.Lookup("registry.example.com/x")))
	for _, empty := range []string{`{}`, `{"auths": {}}`, `{"auths": null}`, `{"credsStore": "desktop"}`} {
		ring, err := ParseDockerConfig([]byte(empty))
		require.NoError(t, err, empty)
		require.Empty(t, ring.keys)
	}
	for bad, want := range map[string]string{
		``:                                      "byte 0: not JSON",
		`[]`:                                    "byte 1: wrong type, want map",
		`{"auths": 3}`:                          "byte 1: wrong type, want map",
		`{"r.io": {"password": 5}}`:             "wrong type, want string",
		`{"auths": {"r.io": {"auth": "c3R="}}}`: "r.io: auth is not of the form username:password",
		`{"auths": {"r.io": {"auth": "!"}}}`:    "r.io: auth is not base64",
	} {
		_, err := ParseDockerConfig([]byte(bad))
		require.ErrorContains(t, err, want, bad)
	}
}

func FuzzParseDockerConfig(f *testing.F) {
	f.Add(`{"auths": {"r.io": {"auth": "YTpi"}}}`, "r.io/x")
	f.Add(`{"*.[": {"username": "a"}}`, "a.b/x")
	f.Fuzz(func(t *testing.T, config, image string) {
		ring, err := ParseDockerConfig([]byte(config))
		if err != nil {
			require.Empty(t, ring.keys)
		}
		for _, c := range ring.Lookup(image) {
			require.NotNil(t, c.Auth)
			require.Len(t, c.Hash(), 64)
		}
	})
}

// The first usable file counts, and a change is seen after five minutes.
func TestNodeConfig(t *testing.T) {
	dir := t.TempDir()
	bad, good := filepath.Join(dir, "bad.json"), filepath.Join(dir, "good.json")
	require.NoError(t, os.WriteFile(bad, []byte("{"), 0o600))
	write := func(user string) {
		require.NoError(t, os.WriteFile(good, []byte(`{"auths": {"r.io": {"username": "`+user+`"}}}`), 0o600))
	}
	write("one")
	synctest.Test(t, func(t *testing.T) {
		n := NewNodeConfig([]string{filepath.Join(dir, "none"), bad, good}, nil)
		find := func() string {
			auths, err := n.Credentials(t.Context(), &v1.Pod{}, "r.io/x")
			require.NoError(t, err)
			return users(auths)
		}
		require.Equal(t, "one", find())
		write("two")
		require.Equal(t, "one", find())
		time.Sleep(5 * time.Minute)
		require.Equal(t, "two", find())
	})
	require.Empty(t, NewNodeConfig(nil, nil).read().keys)
}

// The hash is computed from the same JSON as in the kubelet.
func TestHash(t *testing.T) {
	ring, err := ParseDockerConfig([]byte(`{"r.io": {"username": "u", "password": "p<", "email": "e"}}`))
	require.NoError(t, err)
	want := fmt.Sprintf("%x", sha256.Sum256([]byte(`{"username":"u","password":"p\u003c","email":"e"}`)))
	require.Equal(t, want, ring.Lookup("r.io/x")[0].Hash())
	require.Empty(t, Credential{}.Hash())
	all := Credential{Auth: &runtimeapi.AuthConfig{
		Username: "u", Password: "p", Auth: "a", ServerAddress: "s", IdentityToken: "i", RegistryToken: "r",
	}}
	want = fmt.Sprintf("%x", sha256.Sum256([]byte(
		`{"username":"u","password":"p","auth":"a","serveraddress":"s","identitytoken":"i","registrytoken":"r"}`)))
	require.Equal(t, want, all.Hash())
}

func TestChain(t *testing.T) {
	source := func(err error, names ...string) Source {
		return SourceFunc(func(context.Context, *v1.Pod, string) (out []Credential, _ error) {
			for _, name := range names {
				out = append(out, Credential{Auth: &runtimeapi.AuthConfig{Username: name}})
			}
			return out, err
		})
	}
	broken := errors.New("broken")
	found, err := Chain(source(nil, "a", "b"), nil, source(broken, "c"), source(nil, "d")).Credentials(t.Context(), podOf("1", ""), "x")
	require.ErrorIs(t, err, broken)
	require.Equal(t, "a b c d", users(found))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	found, err = Chain(source(nil, "a")).Credentials(ctx, podOf("1", ""), "x")
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, found)
	found, err = Chain().Credentials(t.Context(), podOf("1", ""), "x")
	require.NoError(t, err)
	require.Empty(t, found)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
