package podfacts

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// C17: the vectors of the kubelet's hash, and what does not count.
func TestHashVectors(t *testing.T) {
	for want, c := range map[string]v1.Container{
		"8e45cbd0": {Image: "foo/image:v1", Name: "test_container"},
		"5264866e": {Image: "busybox", Name: "a"},
		"4377ccae": {Image: "registry.k8s.io/pause:3.10", Name: "c1"},
	} {
		require.Equal(t, want, strconv.FormatUint(Hash(&c), 16))
		c.Env = []v1.EnvVar{{Name: "X"}}
		c.ReadinessProbe = &v1.Probe{}
		c.Resources.Limits = list("1", "1Gi")
		require.Equal(t, want, strconv.FormatUint(Hash(&c), 16))
	}
}
