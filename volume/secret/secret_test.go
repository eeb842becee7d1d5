package secret_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/content"
	"github.com/podwright/podwright/volume/internal/testbacking"
	"github.com/podwright/podwright/volume/objects"
	"github.com/podwright/podwright/volume/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func p[T any](v T) *T { return &v }

var pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p", Namespace: "shop"}}

func source(optional bool) v1.VolumeSource {
	return v1.VolumeSource{Secret: &v1.SecretVolumeSource{
		SecretName: "tls", DefaultMode: p(int32(0o400)), Optional: &optional,
		Items: []v1.KeyToPath{{Key: "key", Path: "private/key"}, {Key: "crt", Path: "crt", Mode: p(int32(0o440))}},
	}}
}

func tls() *v1.Secret {
	return &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "tls"}, StringData: map[string]string{"key": "k", "crt": "c", "more": "m"}}
}

func Example() {
	root, _ := os.MkdirTemp("", "kubelet")
	defer os.RemoveAll(root)
	secrets := &objects.Memory{}
	secrets.PutSecret(tls())
	volumes, _ := content.New(content.Config{Backing: &testbacking.Plugin{}}) // in an agent: the plugin for emptyDir volumes
	plugin, _ := secret.New(secret.Config{Volumes: volumes, Secrets: secrets})

	layout, volumeSource := volume.Layout{Root: root}, source(false)
	mounted, err := plugin.Mount(context.Background(), volume.Mount{
		Pod: pod, Spec: &volume.Spec{Name: "tls", Inline: &volumeSource},
		Dir: layout.Volume(pod.UID, plugin.Name(), "tls"), StateDir: layout.State(pod.UID, plugin.Name(), "tls"),
	})
	text, _ := os.ReadFile(filepath.Join(mounted.Path, "private", "key"))
	fmt.Println(string(text), err)
	// Output: k <nil>
}

// V9: the modes; V7: what is missing.
func TestSecret(t *testing.T) {
	secrets, backing := &objects.Memory{}, &testbacking.Plugin{}
	volumes, err := content.New(content.Config{Backing: backing})
	require.NoError(t, err)
	plugin, err := secret.New(secret.Config{Volumes: volumes, Secrets: secrets})
	require.NoError(t, err)
	m := testbacking.MountOf(t, secret.Name, pod, "v", source(false))
	require.True(t, plugin.Supports(m.Spec))
	require.False(t, plugin.Supports(&volume.Spec{Inline: &v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}}))
	_, err = plugin.Mount(t.Context(), m)
	require.EqualError(t, err, `secret: secret "shop/tls" not found`)
	require.Zero(t, backing.Mounts.Load(), "no tmpfs is left, since there was none")

	secrets.PutSecret(tls())
	_, err = plugin.Mount(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"private/key": "0400 k", "crt": "0440 c"}, testbacking.Files(t, m.Dir))
	require.Equal(t, v1.StorageMediumMemory, backing.MediumOfLast())
	require.Equal(t, []volume.Object{{Kind: objects.KindSecret, Namespace: "shop", Name: "tls"}}, plugin.Objects(pod, m.Spec))

	_, err = secret.New(secret.Config{Volumes: volumes})
	require.EqualError(t, err, "secret: Config.Secrets is required")
	_, err = secret.New(secret.Config{})
	require.EqualError(t, err, "secret: Config.Volumes is required")
}
