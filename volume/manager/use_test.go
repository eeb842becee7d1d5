package manager

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// V2: a volume that no container uses is not mounted.
func TestUsedBy(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{
		Volumes: []v1.Volume{{Name: "unused"}, {Name: "data"}, {Name: "keys"}, {Name: "disk"}, {Name: "both"}, {Name: "debug"}},
		InitContainers: []v1.Container{{
			VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "keys", MountPath: "/data/a/../keys/"}},
		}},
		Containers: []v1.Container{{
			VolumeMounts: []v1.VolumeMount{
				{Name: "data", MountPath: "/data"}, {Name: "keys", MountPath: "/data/keys"}, {Name: "keys", MountPath: "/database"},
				{Name: "both", MountPath: "/data/b"},
			},
			VolumeDevices: []v1.VolumeDevice{{Name: "disk", DevicePath: "/dev/x"}, {Name: "both", DevicePath: "/dev/y"}},
		}, {
			VolumeMounts: []v1.VolumeMount{{Name: "keys", MountPath: "/k", SubPath: "one"}, {Name: "both", MountPath: "/k/inside"}, {Name: "gone", MountPath: "/gone"},
				{Name: "keys", MountPath: "/expr", SubPathExpr: "$(X)"}, {Name: "both", MountPath: "/expr/inside"}},
		}},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
			VolumeMounts: []v1.VolumeMount{{Name: "debug", MountPath: "/d"}},
		}}},
	}}
	require.Equal(t, []volumeUse{
		{Name: "data", Mounts: true, Inside: []string{"b", "keys"}},
		{Name: "keys", Mounts: true},
		{Name: "disk", Devices: true},
		{Name: "both", Mounts: true, Devices: true},
		{Name: "debug", Mounts: true},
	}, usedBy(pod))
}
