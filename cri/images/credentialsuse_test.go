package images

import (
	"context"
	"errors"
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

// from gives all pods these credentials, or an error besides.
func from(err error, names ...string) credentials.Source {
	return credentials.SourceFunc(func(context.Context, *v1.Pod, string) ([]credentials.Credential, error) {
		return users(names...), err
	})
}

func TestCredentials(t *testing.T) {
	denied, gone := errors.New("denied"), errors.New("RegistryUnavailable: gone")
	for _, tc := range []struct {
		name   string
		source credentials.Source
		fail   map[string]error
		pulled []string
		errs   []error
	}{
		{"tried in turn", from(nil, "one", "two", "three"), map[string]error{"a:latest one": denied}, []string{"a:latest one", "a:latest two"}, nil},
		{"all fail", from(nil, "one", "two"), map[string]error{"a:latest one": denied, "a:latest two": gone}, []string{"a:latest one", "a:latest two"}, []error{denied, gone}},
		{"none is anonymous", from(nil), nil, []string{"a:latest"}, nil},
		{"some cannot be found, others do", from(denied, "one"), nil, []string{"a:latest one"}, nil},
		{"some cannot be found, others fail", from(denied, "one"), map[string]error{"a:latest one": gone}, []string{"a:latest one"}, []error{denied, gone}},
		{"of the pod and the repository", credentials.SourceFunc(func(_ context.Context, pod *v1.Pod, repository string) ([]credentials.Credential, error) {
			return users(pod.Name + " " + repository), nil
		}), nil, []string{"a:latest pod-u a"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newService()
			s.fail = tc.fail
			err := get(t, newManager(t, Config{Service: s, Credentials: tc.source}), "u", "a", "")
			require.Equal(t, tc.pulled, s.pulled())
			if tc.errs == nil {
				require.NoError(t, err)
				return
			}
			for _, want := range tc.errs {
				require.ErrorIs(t, err, want)
			}
			require.Equal(t, ReasonRegistryUnavailable, reasonOf(t, err).Reason)
		})
	}
}

// Once called off, no further credential is tried.
func TestCancelledBetweenCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService()
		s.took = time.Hour
		m := newManager(t, Config{Service: s, Credentials: from(nil, "one", "two")})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := m.Ensure(ctx, request("u", "a:1", ""))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, []string{"a:1 one"}, s.pulled())
	})
}
