package credentials

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The hash is that of the JSON that the kubelet hashes.
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
