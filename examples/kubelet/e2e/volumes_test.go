package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/examples/kubelet/server"
	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/volume/mounts"
)

type volumeScene struct {
	*scene
	objects string
}

// withObjects is onRuntimes with a folder of objects for each kubelet.
func withObjects(t *testing.T, test func(t *testing.T, s *volumeScene)) {
	t.Helper()
	onEach(t, tb.Turns, func(t *testing.T, rt tb.Runtime, images tb.ImageNames) {
		s := &volumeScene{scene: newScene(t, rt, images, options{endpoint: rt.Endpoint})}
		s.objects = filepath.Join(s.dir, "objects")
		s.args = append(s.args, "--objects-dir="+s.objects)
		s.start(t)
		test(t, s)
	})
}

// put writes an object atomically, by renaming a temporary file.
func (s *volumeScene) put(t *testing.T, file, text string) {
	t.Helper()
	path := filepath.Join(s.objects, file)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	aside := filepath.Join(s.dir, "object.new")
	require.NoError(t, os.WriteFile(aside, []byte(text), 0o600))
	require.NoError(t, os.Rename(aside, path))
}

// run runs a command in the pod's container main and returns its output.
func (s *volumeScene) run(name, script string) (string, error) {
	w, err := s.runtimeState()
	if err != nil {
		return "", err
	}
	for _, c := range w.of(name).running() {
		if c.Metadata.Name != "main" {
			continue
		}
		out, stderr, err := s.cri.ExecSync(context.Background(), c.Id, []string{"sh", "-c", script}, 10*time.Second)
		if err != nil {
			return "", fmt.Errorf("%w: %s", err, stderr)
		}
		return strings.TrimSpace(string(out)), nil
	}
	return "", fmt.Errorf("%s does not run: %s", name, w)
}

// waitOutput waits until a script in the pod's container writes a text.
func (s *volumeScene) waitOutput(t *testing.T, name, script, want string) {
	t.Helper()
	wait(t, 5*time.Second, name+": "+script, func() error {
		have, err := s.run(name, script)
		if err == nil && have != want {
			err = fmt.Errorf("have %q, want %q", have, want)
		}
		return err
	})
}

// noMounts returns an error if mounts exist below a folder.
func noMounts(dir string) error {
	points, err := mounts.TableBelow(dir)
	points = slices.DeleteFunc(points, func(p mounts.Point) bool { return p.Path == dir }) // the kubelet's root is a mount itself
	if err == nil && len(points) > 0 {
		err = fmt.Errorf("%d mounts below %s, one at %s", len(points), dir, points[0].Path)
	}
	return err
}

func (s *volumeScene) volume(pod, name string) (server.VolumeReport, error) {
	report, err := s.statusz()
	if err != nil {
		return server.VolumeReport{}, err
	}
	for _, p := range report.Pods {
		for _, v := range p.Volumes {
			if p.Name == pod+"-"+s.node && v.Name == name {
				return v, nil
			}
		}
	}
	return server.VolumeReport{}, fmt.Errorf("no report of volume %s of pod %s", name, pod)
}

// waitVolumeError waits until a volume has failed for the reason why.
func (s *volumeScene) waitVolumeError(t *testing.T, pod, name, why string) {
	t.Helper()
	wait(t, 10*time.Second, "volume "+name+" fails", func() error {
		v, err := s.volume(pod, name)
		if err == nil && (v.Ready || !strings.Contains(v.LastError, why)) {
			err = fmt.Errorf("have %+v", v)
		}
		return err
	})
}

func (s *volumeScene) waitFailedMountEvent(t *testing.T, pod string) {
	t.Helper()
	wait(t, 10*time.Second, "event FailedMount of "+pod, func() error {
		if len(s.logLines(t, "reason=FailedMount", pod+"-"+s.node, "manifest=")) == 0 {
			return errors.New("no such line in the log")
		}
		return nil
	})
}

// waitLateAttempt waits until the next attempt to mount a volume is at least 15 s away, and returns
// its time. The pauses between attempts grow to 16 s, 32 s and more. A pod starts within 15 s on a
// loaded machine, too.
func (s *volumeScene) waitLateAttempt(t *testing.T, pod, name string) (next time.Time) {
	t.Helper()
	wait(t, time.Minute, "the next attempt to mount "+name+" is 15 s away", func() error {
		v, err := s.volume(pod, name)
		if err == nil && (v.NextTry == nil || time.Until(*v.NextTry) < 15*time.Second) {
			return fmt.Errorf("have %+v", v)
		}
		if err == nil {
			next = *v.NextTry
		}
		return err
	})
	return next
}

// startedBefore checks that an event, and not the next attempt, mounted a volume of a pod.
func (s *volumeScene) startedBefore(t *testing.T, pod string, next time.Time) {
	t.Helper()
	_, c, err := s.container(pod, "main")
	require.NoError(t, err)
	require.NotNil(t, c.State.Running)
	require.True(t, c.State.Running.StartedAt.Time.Before(next), "started at %v, next attempt at %v", c.State.Running.StartedAt, next)
}

// addVolume adds a volume to a pod and mounts it in its first container.
func addVolume(pod *v1.Pod, name, at string, source v1.VolumeSource, change ...func(*v1.VolumeMount)) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
	addMount(pod, name, at, change...)
}

func addMount(pod *v1.Pod, name, at string, change ...func(*v1.VolumeMount)) {
	m := v1.VolumeMount{Name: name, MountPath: at}
	for _, f := range change {
		f(&m)
	}
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, m)
}

func configMap(name string) v1.VolumeSource {
	return v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}}
}

func secret(name string) v1.VolumeSource {
	return v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: name}}
}

func memory(size string) v1.VolumeSource {
	limit := resource.MustParse(size)
	return v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: &limit}}
}

func object(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }

const (
	conf   = "apiVersion: v1\nkind: ConfigMap\ndata: {color: red, size: small}\n"
	pass   = "apiVersion: v1\nkind: Secret\nstringData: {user: me, password: secret}\n"
	bearer = "apiVersion: authentication.k8s.io/v1\nkind: TokenRequest\nspec: {audiences: [vault]}\nstatus: {token: abc}\n"
)

// kindsPod returns a pod with a volume of each kind for static pods, except images and nfs.
func kindsPod(s *volumeScene) *v1.Pod {
	pod := newPod("kinds", shell("main", s.images.Busybox, untilTerm))
	pod.Labels = map[string]string{"app": "kinds"}
	addVolume(pod, "disk", "/disk", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
	addVolume(pod, "memory", "/memory", memory("1Mi"))
	addVolume(pod, "conf", "/conf", configMap("conf"))
	mode := int32(0o400)
	pass := secret("pass")
	pass.Secret.DefaultMode, pass.Secret.Items = &mode, []v1.KeyToPath{{Key: "password", Path: "deep/password"}}
	addVolume(pod, "pass", "/pass", pass)
	optional := configMap("none")
	optional.ConfigMap.Optional = new(true)
	addVolume(pod, "optional", "/optional", optional)
	label := []v1.DownwardAPIVolumeFile{{Path: "app", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels['app']"}}}
	addVolume(pod, "downward", "/downward", v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: label}})
	addVolume(pod, "projected", "/projected", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: object("conf")}},
		{Secret: &v1.SecretProjection{LocalObjectReference: object("pass")}},
		{DownwardAPI: &v1.DownwardAPIProjection{Items: label}},
		{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Audience: "vault", Path: "token"}},
	}}})
	for name, kind := range map[string]v1.HostPathType{
		"made": v1.HostPathDirectoryOrCreate, "file": v1.HostPathFileOrCreate, "dir": v1.HostPathDirectory, "socket": v1.HostPathSocket,
	} {
		path := map[string]string{"dir": s.dir, "file": s.dir + "/host-file", "made": s.dir + "/host-made", "socket": s.dir + "/socket"}[name]
		addVolume(pod, name, "/host/"+name, v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: &kind}})
	}
	device := v1.HostPathCharDev
	addVolume(pod, "null", "/host/null", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/dev/null", Type: &device}})
	addMount(pod, "conf", "/color", func(m *v1.VolumeMount) { m.SubPath = "color" })
	addMount(pod, "disk", "/mine", func(m *v1.VolumeMount) { m.SubPathExpr = "of/$(POD)" })
	addMount(pod, "memory", "/look", func(m *v1.VolumeMount) { m.ReadOnly = true })
	pod.Spec.Containers[0].Env = []v1.EnvVar{
		{Name: "POD", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		{Name: "SIZE", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: object("conf"), Key: "size"}}},
		{Name: "PASSWORD", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: object("pass"), Key: "password"}}},
	}
	pod.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{
		{Prefix: "C_", ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: object("conf")}},
		{SecretRef: &v1.SecretEnvSource{LocalObjectReference: object("none"), Optional: new(true)}},
	}
	return pod
}

// Each kind of volume for static pods has the right content in the container. A changed config map
// reaches the container. All volumes are removed with the pod.
func TestVolumes(t *testing.T) {
	withObjects(t, func(t *testing.T, s *volumeScene) {
		socket, err := net.Listen("unix", filepath.Join(s.dir, "socket"))
		require.NoError(t, err)
		defer socket.Close()
		s.put(t, "configmaps/default/conf.yaml", conf)
		s.put(t, "secrets/default/pass.yaml", pass)
		s.put(t, "tokens/default/default.yaml", bearer)
		kinds := kindsPod(s)
		withImage := s.runtime.Name == "containerd-v2" // 1.6 does not support image volumes
		if withImage {
			addVolume(kinds, "image", "/image", v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: s.images.Testprog, PullPolicy: v1.PullIfNotPresent}})
		}
		s.writeManifest(t, "kinds.yaml", kinds)
		pod := s.running(t, "kinds")
		for script, want := range map[string]string{
			"cat /conf/color /conf/size":                           "redsmall",
			"stat -L -c %a /conf/color":                            "644",
			"cat /pass/deep/password":                              "secret",
			"stat -L -c %a /pass/deep/password":                    "400",
			"ls /pass; ls /optional":                               "deep",
			"cat /downward/app":                                    "kinds",
			"cd /projected && echo $(ls) $(cat app color token)":   "app color password size token user kindsredabc",
			"stat -c %a /disk":                                     "777",
			"touch /host/made/x /disk/y /memory/z && ls /look":     "z",
			"grep -c ' /memory tmpfs rw.*size=1024k' /proc/mounts": "1",
			"cat /color":                        "red",
			"touch /mine/m; ls -d /disk/of/*/m": "/disk/of/kinds-" + s.node + "/m",
			"test -S /host/socket && test -c /host/null && echo yes": "yes",
			"echo here > /host/file && cat /host/dir/host-file":      "here",
			"echo $SIZE $PASSWORD $C_color":                          "small secret red",
			"touch /conf/x /pass/x /look/x 2>/dev/null; echo $?":     "1",
		} {
			s.waitOutput(t, "kinds", script, want)
		}
		if withImage {
			s.waitOutput(t, "kinds", "test -x /image/testprog && echo yes", "yes")
		}
		require.FileExists(t, filepath.Join(s.dir, "host-made", "x"))

		s.put(t, "configmaps/default/conf.yaml", strings.Replace(conf, "red", "blue", 1))
		s.waitOutput(t, "kinds", "cat /conf/color /projected/color /color", "bluebluered") // a subPath keeps its content
		require.Equal(t, pod.Status.ContainerStatuses, s.running(t, "kinds").Status.ContainerStatuses)

		s.removeManifest(t, "kinds.yaml")
		wait(t, 20*time.Second, "the pod is removed", func() error { return errors.Join(s.noRemains("kinds", string(pod.UID)), noMounts(s.root)) })
		require.FileExists(t, filepath.Join(s.dir, "host-made", "x"))
	})
}

// A pod waits for a missing object, reported by an event and the status page, and runs as soon as
// the object exists. The same holds for an object file whose open blocks; other pods do not wait
// for it.
func TestPodsWaitForMissingObjects(t *testing.T) {
	withObjects(t, func(t *testing.T, s *volumeScene) {
		fifo := filepath.Join(s.objects, "secrets/default/fifo.yaml")
		require.NoError(t, os.MkdirAll(filepath.Dir(fifo), 0o755))
		require.NoError(t, syscall.Mkfifo(fifo, 0o600))
		with := func(name string, source v1.VolumeSource) *v1.Pod {
			pod := newPod(name, shell("main", s.images.Busybox, untilTerm))
			addVolume(pod, "v", "/v", source)
			return pod
		}
		s.writeManifest(t, "missing.yaml", with("missing", configMap("late")))
		s.writeManifest(t, "fifo.yaml", with("fifo", secret("fifo")))
		environ := newPod("environ", shell("main", s.images.Busybox, untilTerm))
		environ.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: object("late")}}}
		s.writeManifest(t, "environ.yaml", environ)
		s.put(t, "configmaps/default/conf.yaml", conf)
		s.writeManifest(t, "bystander.yaml", with("bystander", configMap("conf")))
		s.running(t, "bystander")

		s.waitVolumeError(t, "missing", "v", `configmap "default/late" not found`)
		s.waitVolumeError(t, "fifo", "v", "fifo")
		s.waitFailedMountEvent(t, "missing")
		wait(t, 10*time.Second, "environ waits for its config map", func() error {
			p, c, err := s.container("environ", "main")
			if err == nil && (c.State.Waiting == nil || c.State.Waiting.Reason != "CreateContainerConfigError") {
				err = errors.New(brief(p))
			}
			return err
		})
		next := s.waitLateAttempt(t, "missing", "v")
		for file, text := range map[string]string{"configmaps/default/late.yaml": conf, "secrets/default/fifo.yaml": pass} {
			s.put(t, file, text)
		}
		for _, name := range []string{"missing", "fifo", "environ"} {
			s.running(t, name)
		}
		s.startedBefore(t, "missing", next)
		require.NoError(t, s.healthy())
		s.waitOutput(t, "missing", "cat /v/color", "red")
		s.waitOutput(t, "fifo", "cat /v/user", "me")
		s.waitOutput(t, "environ", "echo $color", "red")
	})
}
