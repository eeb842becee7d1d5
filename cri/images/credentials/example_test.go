package credentials_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/images/credentials"
)

type cluster struct{}

func (cluster) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	return &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Type:       v1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths": {"*.example.com": {"username": "robot", "password": "x"}}}`)},
	}, nil
}

func Example() {
	secrets := must(credentials.NewPullSecrets(credentials.PullSecretsConfig{Secrets: cluster{}}))
	source := credentials.Chain(secrets, credentials.NewNodeConfig([]string{"/var/lib/kubelet/config.json"}, nil))
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       v1.PodSpec{ImagePullSecrets: []v1.LocalObjectReference{{Name: "registry"}}},
	}
	found := must(source.Credentials(context.Background(), pod, "registry.example.com/shop/web"))
	fmt.Println(found[0].Auth.Username, "from secret", found[0].Origin.Secret.Name)
	// Output: robot from secret registry
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
