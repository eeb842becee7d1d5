package e2e_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// bystander is a pod that is restarted as soon as its volumes are not what they were.
func bystander(s *volumeScene) *v1.Pod {
	pod := newPod("bystander", shell("main", s.images.Busybox, untilTerm))
	mounted(pod, "conf", "/conf", configMap("conf"))
	mounted(pod, "pass", "/pass", secret("pass"))
	mounted(pod, "disk", "/disk", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
	script := "grep -q red /conf/color && grep -q me /pass/user && touch /disk/x"
	pod.Spec.Containers[0].LivenessProbe = &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", script}}},
		PeriodSeconds: 1, FailureThreshold: 3, TimeoutSeconds: 5,
	}
	return pod
}

// withVolume is a pod with one volume.
func (s *volumeScene) withVolume(name string, source v1.VolumeSource) *v1.Pod {
	pod := newPod(name, shell("main", s.images.Busybox, untilTerm))
	mounted(pod, "v", "/v", source)
	return pod
}

// badSources are volumes that cannot be mounted, each with what is said of it.
func badSources(s *volumeScene) map[string]struct {
	source v1.VolumeSource
	want   string
} {
	file, device := v1.HostPathFile, v1.HostPathBlockDev
	item := func(key, path string) v1.VolumeSource {
		source := configMap("conf")
		source.ConfigMap.Items = []v1.KeyToPath{{Key: "color", Path: "same"}, {Key: key, Path: path}}
		return source
	}
	token := v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Audience: "nobody", Path: "token"}}
	return map[string]struct {
		source v1.VolumeSource
		want   string
	}{
		"huge":     {v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumHugePages}}, "exactly one size"},
		"hostfile": {v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: s.dir, Type: &file}}, "hostPath.type"},
		"hostpipe": {v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: filepath.Join(s.dir, "pipe"), Type: &file}}, "hostPath.type"},
		"device":   {v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/dev/null", Type: &device}}, "hostPath.type"},
		"key":      {item("none", "other"), "none"},
		"same":     {item("size", "same/size"), "same"},
		"token":    {v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{token}}}, `not for "nobody"`},
		"large":    {configMap("large"), "more than the limit"},
		"zeros":    {configMap("zeros"), "is a device"},
		"loop":     {configMap("loop"), "too many levels"},
		"folder":   {configMap("folder"), "configmap"},
		"binary":   {configMap("binary"), "is not text"},
		"other":    {configMap("other"), "kind"},
		"late":     {secret("late"), "secrets/default/late.yaml"},
	}
}

// placeBadObjects makes what a folder of objects must not be.
func (s *volumeScene) placeBadObjects(t *testing.T) (writer *os.File) {
	path := func(name string) string { return filepath.Join(s.objects, "configmaps/default", name+".yaml") }
	require.NoError(t, syscall.Mkfifo(filepath.Join(s.dir, "pipe"), 0o600))
	require.NoError(t, os.WriteFile(path("large"), nil, 0o600))
	require.NoError(t, os.Truncate(path("large"), 1<<30))
	require.NoError(t, os.Symlink("/dev/zero", path("zeros")))
	require.NoError(t, os.Symlink(path("loop"), path("loop")))
	require.NoError(t, os.Mkdir(path("folder"), 0o700))
	require.NoError(t, os.WriteFile(path("binary"), []byte("a\x00b"), 0o600))
	s.put(t, "configmaps/default/other.yaml", pass)
	writer, err := os.Create(filepath.Join(s.objects, "secrets/default/late.yaml"))
	require.NoError(t, err)
	_, err = writer.WriteString(pass[:20])
	require.NoError(t, err)
	return writer
}

// What cannot be mounted says why, and disturbs neither a pod with probes nor the end of
// anything; nor does what others do to the volumes of a pod that runs.
func TestBadVolumes(t *testing.T) {
	withObjects(t, func(t *testing.T, s *volumeScene) {
		s.put(t, "configmaps/default/conf.yaml", conf)
		s.put(t, "secrets/default/pass.yaml", pass)
		s.put(t, "tokens/default/default.yaml", bearer)
		s.place(t, "bystander.yaml", bystander(s))
		steady := s.running(t, "bystander")
		writer := s.placeBadObjects(t)
		defer writer.Close()

		bad := badSources(s)
		for name, c := range bad {
			s.place(t, name+".yaml", s.withVolume(name, c.source))
		}
		s.place(t, "refused.yaml", s.withVolume("refused", secret("")))
		s.place(t, "nfs.yaml", s.withVolume("nfs", v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "127.0.0.1", Path: "/x"}}))
		s.hasProblem(t, "refused.yaml", "spec.volumes[0].secret.secretName: Required", false)
		for name, c := range bad {
			s.fails(t, name, "v", c.want)
		}
		s.fails(t, "nfs", "v", "nfs")

		_, err := writer.WriteString(pass[20:])
		require.NoError(t, errors.Join(err, writer.Close()))
		s.running(t, "late")

		var many strings.Builder
		for i := range 10_000 {
			fmt.Fprintf(&many, "  k%d: v\n", i)
		}
		s.put(t, "configmaps/default/many.yaml", "apiVersion: v1\nkind: ConfigMap\ndata:\n"+many.String())
		s.place(t, "many.yaml", s.withVolume("many", configMap("many")))
		s.running(t, "many")
		s.shows(t, "many", "ls /v | wc -l", "10000")

		s.spoil(t, string(steady.UID))
		require.NoError(t, s.untouched(steady, "bystander"))
		require.NoError(t, s.healthy())
	})
}

// spoil does to the volumes of a pod what nobody should, while it runs.
func (s *volumeScene) spoil(t *testing.T, uid string) {
	volumes := filepath.Join(s.root, "pods", uid, "volumes")
	at := func(plugin, name string) string { return filepath.Join(volumes, "kubernetes.io~"+plugin, name) }
	require.NoError(t, os.Remove(filepath.Join(at("configmap", "conf"), "color"))) // what the container sees, too
	require.NoError(t, os.RemoveAll(filepath.Join(s.root, "pods", uid, "plugins")))
	require.NoError(t, unix.Mount("tmpfs", at("empty-dir", "disk"), "tmpfs", 0, "size=64k"))
	require.NoError(t, unix.Unmount(at("secret", "pass"), unix.MNT_DETACH))
	s.put(t, "configmaps/default/conf.yaml", strings.Replace(conf, "small", "large", 1))
	s.put(t, "secrets/default/pass.yaml", strings.Replace(pass, "password: secret", "password: other", 1))
	s.shows(t, "bystander", "cat /conf/size /conf/color", "largered")
	wait(t, 10*time.Second, "the secret is on disk again", func() error {
		return fileHas(filepath.Join(at("secret", "pass"), "password"), "other")
	})
	for _, file := range []string{"conf.yaml", "many.yaml"} {
		require.NoError(t, os.Remove(filepath.Join(s.objects, "configmaps/default", file)))
	}
	hold(t, 3*time.Second, "what is mounted stays without its object", func() error {
		have, err := s.run("bystander", "cat /conf/color")
		if err == nil && have != "red" {
			err = errors.New(have)
		}
		return err
	})
}

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

// hang mounts a file system that never answers, until the function that is returned is
// called.
func hang(t *testing.T, dir string) (answer func()) {
	require.NoError(t, os.Mkdir(dir, 0o755))
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err == nil {
		err = unix.Mount("hung", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", device.Fd()))
	}
	if err != nil {
		t.Skip("this machine cannot make a file system that hangs:", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	answer = sync.OnceFunc(func() { _ = device.Close() }) // whoever waits gets an error
	t.Cleanup(answer)
	return answer
}

// A path of the host that never answers holds up its own pod, which says since when, and
// neither others that begin and end nor the kubelet that is killed and started again.
func TestHungHostPath(t *testing.T) {
	withObjects(t, func(t *testing.T, s *volumeScene) {
		path, folder := filepath.Join(s.dir, "hung"), v1.HostPathDirectory
		answer := hang(t, path)
		s.put(t, "configmaps/default/conf.yaml", conf)
		s.put(t, "secrets/default/pass.yaml", pass)
		hung := s.withVolume("hung", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: &folder}})
		mounted(hung, "conf", "/conf", configMap("conf"))
		s.place(t, "hung.yaml", hung)
		s.place(t, "bystander.yaml", bystander(s))
		steady := s.running(t, "bystander")
		hangs := func() {
			wait(t, 10*time.Second, "it is told what runs since when", func() error {
				v, err := s.volume("hung", "v")
				if err == nil && (v.Operation != "mount" || v.RunningSince == nil) {
					err = fmt.Errorf("have %+v", v)
				}
				return err
			})
			wait(t, 10*time.Second, "its other volume is ready", func() error {
				conf, err := s.volume("hung", "conf")
				if err == nil && !conf.Ready {
					err = fmt.Errorf("have %+v", conf)
				}
				return err
			})
		}
		hangs()
		s.kill(t)
		s.start(t)
		hangs()
		s.unplace(t, "hung.yaml")
		s.place(t, "later.yaml", s.withVolume("later", secret("pass")))
		later := s.running(t, "later")
		s.unplace(t, "later.yaml")
		wait(t, 20*time.Second, "others go", func() error { return s.gone("later", string(later.UID)) })
		require.NoError(t, s.untouched(steady, "bystander"))
		require.NoError(t, s.healthy())
		answer()
	})
}
