package images

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/images/credentials"
	"github.com/podwright/podwright/internal/testkit/testcri"
)

// The tests in this file need real runtimes. examples/tools/testbed provides them and sets the
// variables with their endpoints.

// oneSecret has a secret "right" and a secret "wrong" for a registry.
type oneSecret string

func (s oneSecret) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	password := map[string]string{"right": "p", "wrong": "q"}[name]
	return &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "1"},
		Type:       v1.SecretTypeDockercfg,
		Data:       map[string][]byte{v1.DockerConfigKey: []byte(`{"` + string(s) + `": {"username": "u", "password": "` + password + `"}}`)},
	}, nil
}

// An image of a registry with a password can be pulled only with the pod's secret.
func TestContainerdCredentials(t *testing.T) {
	testcri.Each(t, func(t *testing.T, node testcri.Node) {
		service, registry := node.Images(t), newTestRegistry(t, "p")
		image := registry.image(t, "private")
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
			defer cancel()
			require.NoError(t, service.RemoveImage(ctx, &runtimeapi.ImageSpec{Image: image}))
		})
		secrets, err := credentials.NewPullSecrets(credentials.PullSecretsConfig{Secrets: oneSecret(registry.server.Listener.Addr().String())})
		require.NoError(t, err)
		m := newManager(t, Config{Service: service, Credentials: secrets})
		for uid, secret := range map[string]string{"1": "", "2": "wrong"} {
			_, err = m.Ensure(t.Context(), secretRequest(uid, "ns", secret, image, ""))
			require.Equal(t, ReasonErrImagePull, reasonOf(t, err).Reason)
			require.ErrorContains(t, err, "authoriz")
		}
		found, err := m.Ensure(t.Context(), secretRequest("3", "ns", "right", image, ""))
		require.NoError(t, err)
		require.NotNil(t, found.UID)
		require.EqualValues(t, 1000, *found.UID)
		require.Equal(t, image, found.UserSpecified)
	})
}
