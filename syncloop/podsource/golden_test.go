package podsource_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/testkit/golden"
	"github.com/podwright/podwright/syncloop/podsource"
)

// Decoding yields the same pod as the upstream kubelet, with all defaults. See
// examples/tools/golden for the recording.
func TestDecodeAsUpstream(t *testing.T) {
	const dir = "../../cri/pods/testdata/golden"
	env, err := golden.ReadEnvironment(dir)
	require.NoError(t, err)
	d := podsource.Decoder{NodeName: env.NodeName, Volumes: []string{"hostPath", "emptyDir", "downwardAPI", "image"}}
	manifests, err := filepath.Glob(filepath.Join(dir, "pods", "*.yaml"))
	require.NoError(t, err)
	require.Greater(t, len(manifests), 60)
	for _, manifest := range manifests {
		name := filepath.Base(manifest[:len(manifest)-len(".yaml")])
		t.Run(name, func(t *testing.T) {
			record, err := golden.ReadRecord(dir, name)
			require.NoError(t, err)
			var want v1.Pod
			require.NoError(t, json.Unmarshal(record.Pod, &want))
			text, err := os.ReadFile(manifest)
			require.NoError(t, err)
			got, err := d.Decode(text, "file:"+manifest)
			require.NoError(t, err)
			if name == "sysctls" { // upstream rewrites the name in the pod; here only runtime requests have that form
				got.Spec.SecurityContext.Sysctls[1].Name = "net.ipv4.ip_local_port_range"
			}
			require.Equal(t, jsonOf(t, want.Spec), jsonOf(t, got.Spec))
			require.Equal(t, want.Name, got.Name)
			require.Equal(t, want.Namespace, got.Namespace)
			require.Equal(t, want.UID, got.UID)
			require.Equal(t, want.Labels, got.Labels)
			for _, added := range []string{"kubernetes.io/config.seen", "kubernetes.io/config.source"} { // by the sources
				delete(want.Annotations, added)
			}
			require.Equal(t, want.Annotations, got.Annotations)
		})
	}
}

func jsonOf(t *testing.T, spec v1.PodSpec) string {
	text, err := golden.Marshal(spec)
	require.NoError(t, err)
	return string(text)
}
