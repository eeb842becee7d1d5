package credentials

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

type secrets map[string]*v1.Secret

func (s secrets) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	if found, ok := s[namespace+"/"+name]; ok {
		return found, ctx.Err()
	}
	return nil, errors.New("not found")
}

func (s secrets) add(name string, kind v1.SecretType, field, content string) {
	s["ns/"+name] = &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Type:       kind, Data: map[string][]byte{field: []byte(content)},
	}
}

func config(place, user string) string {
	return `{"auths": {"` + place + `": {"username": "` + user + `", "password": "p"}}}`
}

// 6.2: both types are read; the most specific place over all secrets comes first, then the pod's
// order; an unusable secret causes an event and no error; empty names are ignored.
func TestPullSecrets(t *testing.T) {
	s := secrets{}
	s.add("new", v1.SecretTypeDockerConfigJson, v1.DockerConfigJsonKey, config("r.io", "new"))
	s.add("same", v1.SecretTypeDockerConfigJson, v1.DockerConfigJsonKey, config("r.io", "same"))
	s.add("deep", v1.SecretTypeDockerConfigJson, v1.DockerConfigJsonKey, config("r.io/team", "deep"))
	s.add("old", v1.SecretTypeDockercfg, v1.DockerConfigKey, `{"r.io": {"username": "old", "password": "p"}}`)
	s.add("opaque", v1.SecretTypeOpaque, v1.DockerConfigJsonKey, config("r.io", "opaque"))
	s.add("empty", v1.SecretTypeDockerConfigJson, v1.DockerConfigKey, config("r.io", "empty"))
	s.add("garbled", v1.SecretTypeDockerConfigJson, v1.DockerConfigJsonKey, "{")
	for _, tc := range []struct {
		name, users, unusable string
		refs                  []string
	}{
		{"none", "", "", nil},
		{"order of the pod", "same new", "", []string{"same", "new"}},
		{"specific first", "deep new old", "", []string{"new", "deep", "old"}},
		{"empty name", "new", "", []string{"", "new"}},
		{"missing", "new", "(gone)", []string{"gone", "new"}},
		{"unusable", "new", "(opaque, empty, garbled)", []string{"opaque", "empty", "garbled", "new"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var events []string
			p, err := NewPullSecrets(PullSecretsConfig{Secrets: s, Event: func(ref v1.ObjectReference, kind, reason, message string) {
				require.Equal(t, "pod-1", ref.Name)
				require.Equal(t, "Warning "+eventFailedToRetrieveImagePullSecret, kind+" "+reason)
				events = append(events, message)
			}})
			require.NoError(t, err)
			pod := podOf("1", "")
			for _, ref := range tc.refs {
				pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: ref})
			}
			found, err := p.Credentials(t.Context(), pod, "r.io/team/app")
			require.NoError(t, err)
			require.Equal(t, tc.users, users(found))
			if tc.unusable == "" {
				require.Empty(t, events)
				return
			}
			require.Len(t, events, 1)
			require.Contains(t, events[0], tc.unusable)
		})
	}
}

func TestPullSecretsOrigin(t *testing.T) {
	s := secrets{}
	s.add("new", v1.SecretTypeDockerConfigJson, v1.DockerConfigJsonKey, config("r.io", "new"))
	p, err := NewPullSecrets(PullSecretsConfig{Secrets: s})
	require.NoError(t, err)
	pod := podOf("1", "")
	pod.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "new"}}
	found, err := p.Credentials(t.Context(), pod, "r.io/x")
	require.NoError(t, err)
	require.Equal(t, Origin{Secret: &SecretRef{UID: "uid-new", Namespace: "ns", Name: "new"}}, found[0].Origin)
	require.Empty(t, find1(t, p, pod, "other.io/x"))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.Credentials(ctx, pod, "r.io/x")
	require.ErrorIs(t, err, context.Canceled)
	_, err = NewPullSecrets(PullSecretsConfig{})
	require.ErrorContains(t, err, "PullSecretsConfig.Secrets")
}
