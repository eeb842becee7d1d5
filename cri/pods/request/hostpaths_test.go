package request_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods/request"
)

func TestHostPaths(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	kind := v1.HostPathFile
	volume := func(name, path string) v1.Volume {
		return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: &kind}}}
	}
	pod := &v1.Pod{Spec: v1.PodSpec{Volumes: []v1.Volume{volume("good", file), volume("bad", dir), {Name: "other"}, volume("absent", "/nowhere/x")}}}
	got, err := request.HostPaths{}.Volume(t.Context(), pod, "good")
	require.NoError(t, err)
	require.Equal(t, request.Volume{Path: file}, got)
	_, err = request.HostPaths{}.Volume(t.Context(), pod, "bad")
	require.ErrorContains(t, err, `spec.volumes[1].hostPath.type: "File": `+dir)
	_, err = request.HostPaths{}.Volume(t.Context(), pod, "absent")
	require.ErrorContains(t, err, "spec.volumes[3].hostPath.path: stat /nowhere/x")
	for _, name := range []string{"other", "missing"} {
		_, err = request.HostPaths{}.Volume(t.Context(), pod, name)
		require.ErrorIs(t, err, request.ErrNotFound)
	}
}
