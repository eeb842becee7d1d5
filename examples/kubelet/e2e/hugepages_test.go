package e2e_test

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A pod has huge pages, of the only size that it asks for, and certificates of a bundle.
func TestVolumesOfHugePagesAndTrust(t *testing.T) {
	const pages = "/proc/sys/vm/nr_hugepages"
	before, err := os.ReadFile(pages)
	require.NoError(t, err)
	if err := os.WriteFile(pages, []byte("4"), 0o600); err != nil {
		t.Skip("this machine has no huge pages:", err)
	}
	t.Cleanup(func() { require.NoError(t, os.WriteFile(pages, before, 0o600)) })
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	cert := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}))
	withObjects(t, func(t *testing.T, s *volumeScene) {
		s.put(t, "trustbundles/roots.yaml", "apiVersion: certificates.k8s.io/v1beta1\nkind: ClusterTrustBundle\nspec:\n  trustBundle: |\n    "+
			strings.ReplaceAll(strings.TrimSpace(cert), "\n", "\n    ")+"\n")
		pod := newPod("huge", shell("main", s.images.Busybox, untilTerm))
		size := resource.MustParse("4Mi")
		pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{"hugepages-2Mi": size, v1.ResourceMemory: resource.MustParse("64Mi"), v1.ResourceCPU: resource.MustParse("1")}
		mounted(pod, "huge", "/huge", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumHugePages}})
		mounted(pod, "trust", "/trust", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: new("roots"), Path: "ca.pem"}},
		}}})
		s.place(t, "huge.yaml", pod)
		s.running(t, "huge")
		s.shows(t, "huge", "grep -c ' /huge hugetlbfs .*pagesize=2M' /proc/mounts", "1")
		s.shows(t, "huge", "cat /trust/ca.pem", strings.TrimSpace(cert))
		s.put(t, "trustbundles/roots.yaml", "apiVersion: certificates.k8s.io/v1beta1\nkind: ClusterTrustBundle\nspec: {trustBundle: none}\n")
		hold(t, time.Second, "a bad bundle changes nothing", func() error {
			_, err := s.run("huge", "grep CERTIFICATE /trust/ca.pem")
			return err
		})
	})
}
