package e2e_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A pod gets huge pages of the only size that it requests.
func TestHugePageVolumes(t *testing.T) {
	const pages = "/proc/sys/vm/nr_hugepages"
	before, err := os.ReadFile(pages)
	require.NoError(t, err)
	if err := os.WriteFile(pages, []byte("4"), 0o600); err != nil {
		t.Skip("this machine has no huge pages:", err)
	}
	t.Cleanup(func() { require.NoError(t, os.WriteFile(pages, before, 0o600)) })
	if got, err := os.ReadFile(pages); err != nil || strings.TrimSpace(string(got)) != "4" {
		t.Skipf("this machine has %s of 4 huge pages: %v", got, err)
	}
	withObjects(t, func(t *testing.T, s *volumeScene) {
		pod := newPod("huge", shell("main", s.images.Busybox, untilTerm))
		size := resource.MustParse("4Mi")
		pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{"hugepages-2Mi": size, v1.ResourceMemory: resource.MustParse("64Mi"), v1.ResourceCPU: resource.MustParse("1")}
		addVolume(pod, "huge", "/huge", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumHugePages}})
		s.writeManifest(t, "huge.yaml", pod)
		s.running(t, "huge")
		s.waitOutput(t, "huge", "grep -c ' /huge hugetlbfs .*pagesize=2M' /proc/mounts", "1")
	})
}
