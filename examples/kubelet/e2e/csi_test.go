package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podwright/podwright/examples/kubelet/csi/csitest"
	"github.com/podwright/podwright/examples/kubelet/server"
	"github.com/podwright/podwright/examples/tools/testbed/tb"
)

// csiScene is a scene with CSI drivers that register over real sockets and outlive the pods.
type csiScene struct {
	*volumeScene
	sockets string
	drivers []*csiDriver
}

// withDrivers is withObjects with CSI drivers.
func withDrivers(t *testing.T, test func(t *testing.T, s *csiScene)) {
	t.Helper()
	onEach(t, tb.Turns, func(t *testing.T, rt tb.Runtime, images tb.ImageNames) {
		s := newCSIScene(t, rt, images)
		s.start(t)
		test(t, s)
	})
}

func newCSIScene(t *testing.T, rt tb.Runtime, images tb.ImageNames) *csiScene {
	// A socket path has at most 107 bytes, and drivers register below the root.
	sockets, err := os.MkdirTemp("", "csi")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(sockets)) })
	s := &csiScene{sockets: sockets}
	t.Cleanup(func() {
		for _, d := range s.drivers {
			d.Stop()
		}
	})
	s.volumeScene = &volumeScene{scene: newScene(t, rt, images, options{config: "volumeStatsAggPeriod: 1s\n", endpoint: rt.Endpoint})}
	t.Cleanup(func() { // otherwise the pods would never be removed
		for _, d := range s.drivers {
			d.up(t)
		}
	})
	s.root, s.objects = filepath.Join(sockets, "root"), filepath.Join(s.dir, "objects")
	s.args = append(s.args, "--root-dir="+s.root, "--objects-dir="+s.objects)
	return s
}

// csiDriver is a driver that can be stopped and started.
type csiDriver struct {
	*csitest.Driver
	runs bool
}

// driver adds a driver with inline volumes without starting it. spec is appended to the spec of
// its CSIDriver object.
func (s *csiScene) driver(t *testing.T, name, spec string) *csiDriver {
	t.Helper()
	s.put(t, "csidrivers/"+name+".yaml", "apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nspec: {volumeLifecycleModes: [Ephemeral]"+spec+"}\n")
	d := &csiDriver{Driver: &csitest.Driver{
		Name: name, Registry: filepath.Join(s.root, "plugins_registry"), Socket: filepath.Join(s.sockets, name+".sock"), Stages: true,
	}}
	require.NoError(t, os.MkdirAll(d.Registry, 0o750))
	s.drivers = append(s.drivers, d)
	return d
}

func (d *csiDriver) up(t testing.TB) *csiDriver {
	t.Helper()
	if !d.runs {
		require.NoError(t, d.Start())
		d.runs = true
	}
	return d
}

func (d *csiDriver) down() {
	d.Stop()
	d.runs = false
}

func (d *csiDriver) count(method string) (n int) {
	for _, call := range d.Calls() {
		if call == method {
			n++
		}
	}
	return n
}

// csiPod returns a pod with a volume of a driver at /v.
func (s *csiScene) csiPod(name, driver string, change ...func(*v1.CSIVolumeSource)) *v1.Pod {
	pod := newPod(name, shell("main", s.images.Busybox, untilTerm))
	source := &v1.CSIVolumeSource{Driver: driver, VolumeAttributes: map[string]string{"color": "red"}}
	for _, f := range change {
		f(source)
	}
	addVolume(pod, "v", "/v", v1.VolumeSource{CSI: source})
	return pod
}

// removePod removes a pod and waits until all its remains are removed.
func (s *csiScene) removePod(t *testing.T, name string) {
	t.Helper()
	pod, err := s.pod(name)
	require.NoError(t, err)
	s.removeManifest(t, name+".yaml")
	wait(t, 20*time.Second, name+" is removed", func() error {
		return errors.Join(s.noRemains(name, string(pod.UID)), noMounts(filepath.Join(s.root, "pods", string(pod.UID))))
	})
}

// waitVolumeStats waits until the Summary has the usage of a pod's volumes as reported by their
// driver.
func (s *csiScene) waitVolumeStats(t *testing.T, name string, volumes ...string) {
	t.Helper()
	wait(t, 15*time.Second, "the Summary has the usage of the driver's volumes", func() error {
		var all statsapi.Summary
		if err := s.getJSON("/stats/summary", &all); err != nil {
			return err
		}
		var have []string
		for _, p := range all.Pods {
			for _, v := range p.VolumeStats {
				if p.PodRef.Name == name+"-"+s.node && v.CapacityBytes != nil && v.InodesUsed != nil {
					have = append(have, v.Name)
				}
			}
		}
		if !slices.Equal(have, volumes) {
			return fmt.Errorf("have %q", have)
		}
		return nil
	})
}

// bystander checks that pods with volumes of another driver, and without volumes, start and end.
func (s *csiScene) bystander(t *testing.T, name string) {
	t.Helper()
	begin := time.Now()
	s.writeManifest(t, name+"-csi.yaml", s.csiPod(name+"-csi", "good"))
	pod := newPod(name, shell("main", s.images.Busybox, untilTerm))
	addVolume(pod, "memory", "/memory", memory("1Mi"))
	s.writeManifest(t, name+".yaml", pod)
	s.running(t, name)
	s.running(t, name+"-csi")
	s.waitOutput(t, name+"-csi", "cat /v/color", "red")
	s.removePod(t, name)
	s.removePod(t, name+"-csi")
	require.NoError(t, s.healthy())
	t.Logf("bystanders started and stopped in %s", time.Since(begin).Round(time.Millisecond))
}

// A static pod uses volumes of a driver: with pod info, a secret, a token, files of its group, a
// read-only mount and a subPath. All of it is removed with the pod.
func TestCSI(t *testing.T) {
	withDrivers(t, func(t *testing.T, s *csiScene) {
		d := s.driver(t, "d", ", podInfoOnMount: true, fsGroupPolicy: File, tokenRequests: [{audience: vault}]").up(t)
		fresh := s.driver(t, "fresh", ", requiresRepublish: true").up(t)
		key := func(source *v1.CSIVolumeSource) { source.NodePublishSecretRef = &v1.LocalObjectReference{Name: "pass"} }
		pod := s.csiPod("p", "d", key)
		pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(2000))}
		addVolume(pod, "ro", "/ro", v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "d", ReadOnly: new(true)}})
		republished := v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "fresh"}}
		key(republished.CSI)
		addVolume(pod, "fresh", "/fresh", republished)
		addMount(pod, "v", "/color", func(m *v1.VolumeMount) { m.SubPath = "color" })
		s.writeManifest(t, "p.yaml", pod)
		s.waitVolumeError(t, "p", "v", `secret "default/pass" not found`)
		s.put(t, "secrets/default/pass.yaml", pass)
		s.waitVolumeError(t, "p", "v", `serviceaccount "default/default" not found`)
		s.put(t, "tokens/default/default.yaml", bearer)
		s.running(t, "p")
		uid := string(s.running(t, "p").UID)
		for script, want := range map[string]string{
			"cat /v/color /v/password /color":                    "redsecretred",
			"cat /v/pod.uid; echo; cat /v/pod.name /v/ephemeral": uid + "\np-" + s.node + "true",
			"cat /v/serviceAccount.tokens":                       `{"vault":{"token":"abc","expirationTimestamp":"0001-01-01T00:00:00Z"}}`,
			"stat -c %g /v /v/color":                             "2000\n2000",
			"stat -c %a /v/color":                                "664",
			"touch /v/x && echo yes":                             "yes",
			"touch /ro/x 2>/dev/null; echo $?":                   "1",
			"cat /fresh/password; ls /fresh":                     "secretpassword\nuser",
			"grep -c ' /v tmpfs rw' /proc/mounts":                "1",
			"grep -c ' /ro tmpfs ro' /proc/mounts":               "1",
			"ls /ro | grep -c .":                                 "6",
		} {
			s.waitOutput(t, "p", script+" 2>/dev/null", want)
		}
		s.waitVolumeStats(t, "p", "v", "ro", "fresh")
		require.Positive(t, d.count("NodeGetVolumeStats"))
		before := s.mustRuntimeState(t).ids()
		s.put(t, "secrets/default/pass.yaml", strings.Replace(pass, "secret}", "better}", 1))
		s.waitOutput(t, "p", "cat /fresh/password /v/password", "bettersecret") // only drivers with requiresRepublish receive the change
		require.Equal(t, 2, d.count("NodePublishVolume"))
		require.Equal(t, before, s.mustRuntimeState(t).ids())
		require.NoError(t, s.healthy())

		s.removePod(t, "p")
		require.NoError(t, noMounts(s.root))
		require.Equal(t, 2, d.count("NodeUnpublishVolume"))
		require.Equal(t, 1, fresh.count("NodeUnpublishVolume"))
		require.Zero(t, d.count("NodeStageVolume")+d.count("NodeUnstageVolume"), "inline volumes are not staged")
	})
}

// A pod waits for a missing driver and runs as soon as the driver registers. A driver that stops
// affects no running pod. The removal of a pod waits for its driver's return, also in the next
// kubelet.
func TestPodsWaitForCSIDriver(t *testing.T) {
	withDrivers(t, func(t *testing.T, s *csiScene) {
		s.driver(t, "good", "").up(t)
		d := s.driver(t, "d", "")
		const missing = `driver "d" is not registered on this node`
		s.writeManifest(t, "p.yaml", s.csiPod("p", "d"))
		s.writeManifest(t, "driverless.yaml", s.csiPod("driverless", "unknown"))
		s.waitVolumeError(t, "p", "v", missing)
		s.waitVolumeError(t, "driverless", "v", `driver "unknown" is not registered`)
		s.waitFailedMountEvent(t, "p")
		s.bystander(t, "b")
		next := s.waitLateAttempt(t, "p", "v")
		d.up(t)
		pod := s.running(t, "p")
		s.startedBefore(t, "p", next)
		s.removePod(t, "driverless")

		before := s.mustRuntimeState(t).ids()
		d.down()
		s.kill(t)
		s.start(t)
		s.running(t, "p")
		s.waitOutput(t, "p", "cat /v/color", "red")
		d.up(t)
		s.waitOutput(t, "p", "cat /v/color", "red")
		d.down()
		require.Equal(t, before, s.mustRuntimeState(t).ids())

		waits := func() {
			wait(t, 10*time.Second, "p waits for the driver", func() error {
				report, err := s.statusz()
				if err == nil && !slices.ContainsFunc(report.Pods, func(p server.PodReport) bool {
					return p.UID == string(pod.UID) && len(p.Volumes) == 1 && strings.Contains(p.Volumes[0].LastError, missing)
				}) {
					err = fmt.Errorf("have %+v", report.Pods)
				}
				return err
			})
		}
		s.removeManifest(t, "p.yaml")
		waits()
		require.Zero(t, s.terminate(t, 10*time.Second))
		s.start(t)
		waits()
		s.bystander(t, "c")
		d.up(t)
		wait(t, 20*time.Second, "p is removed", func() error { return errors.Join(s.noRemains("p", string(pod.UID)), noMounts(s.root)) })
	})
}
