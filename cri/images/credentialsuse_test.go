package images

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/images/credentials"
)

// users makes a credential of each name.
func users(names ...string) (out []credentials.Credential) {
	for _, name := range names {
		out = append(out, credentials.Credential{Auth: &runtimeapi.AuthConfig{Username: name}})
	}
	return out
}

func TestCredentials(t *testing.T) {
	user := func(names ...string) credentials.Source {
		return credentials.SourceFunc(func(_ context.Context, pod *v1.Pod, repository string) ([]credentials.Credential, error) {
			require.Equal(t, "a", repository)
			require.NotNil(t, pod)
			return users(names...), nil
		})
	}
	denied, gone := errors.New("denied"), errors.New("RegistryUnavailable: gone")
	t.Run("tried in turn", func(t *testing.T) {
		s := newService()
		s.set("a:latest one", denied)
		_, err := newManager(t, Config{Service: s, Credentials: user("one", "two", "three")}).Ensure(t.Context(), request("u", "a", ""))
		require.NoError(t, err)
		require.Equal(t, []string{"a:latest one", "a:latest two"}, s.pulled())
	})
	t.Run("all fail", func(t *testing.T) {
		s := newService()
		s.set("a:latest one", denied)
		s.set("a:latest two", gone)
		_, err := newManager(t, Config{Service: s, Credentials: user("one", "two")}).Ensure(t.Context(), request("u", "a", ""))
		require.ErrorIs(t, err, denied)
		require.ErrorIs(t, err, gone)
		require.Equal(t, ReasonRegistryUnavailable, reasonOf(t, err).Reason)
	})
	t.Run("none is anonymous", func(t *testing.T) {
		s := newService()
		_, err := newManager(t, Config{Service: s, Credentials: user()}).Ensure(t.Context(), request("u", "a", ""))
		require.NoError(t, err)
		require.Equal(t, []string{"a:latest"}, s.pulled())
	})
	t.Run("cannot be found", func(t *testing.T) {
		s := newService()
		m := newManager(t, Config{Service: s, Credentials: credentials.SourceFunc(func(context.Context, *v1.Pod, string) ([]credentials.Credential, error) {
			return users("one"), denied
		})})
		_, err := m.Ensure(t.Context(), request("u", "a", ""))
		require.NoError(t, err, "the others may do")
		s.set("b:1 one", gone)
		_, err = m.Ensure(t.Context(), request("u", "b:1", ""))
		require.ErrorIs(t, err, denied)
		require.ErrorIs(t, err, gone)
		require.Equal(t, ReasonRegistryUnavailable, reasonOf(t, err).Reason)
	})
}

// Once called off, no further credential is tried.
func TestCancelledBetweenCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService()
		s.took = time.Hour
		m := newManager(t, Config{Service: s, Credentials: credentials.SourceFunc(func(context.Context, *v1.Pod, string) ([]credentials.Credential, error) {
			return users("one", "two"), nil
		})})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := m.Ensure(ctx, request("u", "a:1", ""))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, []string{"a:1 one"}, s.pulled())
	})
}

// What the node's configuration says reaches the runtime with the pull.
func TestPullWithNodeConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"auths": {"r.io": {"username": "me", "password": "p"}}}`), 0o600))
	s := newService()
	m := newManager(t, Config{Service: s, Credentials: credentials.NewNodeConfig([]string{file}, nil)})
	for _, image := range []string{"r.io/x:1", "s.io/x:1"} {
		_, err := m.Ensure(t.Context(), request("u", image, v1.PullIfNotPresent))
		require.NoError(t, err)
	}
	require.Equal(t, []string{"r.io/x:1 me", "s.io/x:1"}, s.pulled())
}
