package downwardapi_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/content"
	"github.com/podwright/podwright/volume/downwardapi"
	"github.com/podwright/podwright/volume/internal/testbacking"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func source() v1.VolumeSource {
	mode := int32(0o644)
	return v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{DefaultMode: &mode, Items: []v1.DownwardAPIVolumeFile{
		{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
		{Path: "cpu", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.cpu"}},
	}}}
}

func newPod(colour string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p", Namespace: "shop", Labels: map[string]string{"colour": colour}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c"}}},
	}
}

func Example() {
	root, _ := os.MkdirTemp("", "kubelet")
	defer os.RemoveAll(root)
	volumes, _ := content.New(content.Config{Backing: &testbacking.Plugin{}}) // in an agent: the plugin for emptyDir volumes
	plugin, _ := downwardapi.New(downwardapi.Config{Volumes: volumes})

	layout, pod, volumeSource := volume.Layout{Root: root}, newPod("blue"), source()
	mounted, err := plugin.Mount(context.Background(), volume.Mount{
		Pod: pod, Spec: &volume.Spec{Name: "info", Inline: &volumeSource},
		Dir: layout.Volume(pod.UID, plugin.Name(), "info"), StateDir: layout.State(pod.UID, plugin.Name(), "info"),
	})
	text, _ := os.ReadFile(filepath.Join(mounted.Path, "labels"))
	fmt.Println(string(text), err)
	// Output: colour="blue" <nil>
}

// Labels that change are seen at the next sync.
func TestDownwardAPI(t *testing.T) {
	backing := &testbacking.Plugin{}
	volumes, err := content.New(content.Config{Backing: backing})
	require.NoError(t, err)
	plugin, err := downwardapi.New(downwardapi.Config{Volumes: volumes, Allocatable: func() v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse("3500m")}
	}})
	require.NoError(t, err)
	m := testbacking.MountOf(t, downwardapi.Name, newPod("blue"), "v", source())
	require.True(t, plugin.Supports(m.Spec))
	require.True(t, plugin.Remounts(m.Spec))
	require.Empty(t, plugin.Objects(m.Pod, m.Spec))
	for _, colour := range []string{"blue", "red"} {
		m.Pod = newPod(colour)
		_, err = plugin.Mount(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"labels": fmt.Sprintf("0644 colour=%q", colour), "cpu": "0644 4"}, testbacking.Files(t, m.Dir))
	}
	require.Equal(t, v1.StorageMediumMemory, backing.MediumOfLast())
	m.Spec.Inline.DownwardAPI.Items[0].FieldRef.FieldPath = "spec.nodeName"
	_, err = plugin.Mount(t.Context(), m)
	require.EqualError(t, err, `downwardAPI.items[0].fieldRef.fieldPath: "spec.nodeName" cannot be had in a volume`)

	_, err = downwardapi.New(downwardapi.Config{})
	require.EqualError(t, err, "downwardapi: Config.Volumes is required")
}
