package request

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/volume"
)

// 6.5: the result or error of each kind of mount.
func TestMounts(t *testing.T) {
	enabled, possible, disabled := v1.RecursiveReadOnlyEnabled, v1.RecursiveReadOnlyIfPossible, v1.RecursiveReadOnlyDisabled
	none, toContainer, both := v1.MountPropagationNone, v1.MountPropagationHostToContainer, v1.MountPropagationBidirectional
	able := func(h *harness) {
		h.cfg.HandlerFeatures = func(*v1.Pod) HandlerFeatures { return HandlerFeatures{RecursiveReadOnlyMounts: true} }
	}
	selinux := func(h *harness) { h.cfg.Node.SELinux = true }
	for _, tc := range []struct {
		name  string
		mount v1.VolumeMount
		node  func(*harness)
		want  *runtimeapi.Mount
		fails string
	}{
		{name: "plain", mount: v1.VolumeMount{Name: "v"}, want: &runtimeapi.Mount{HostPath: "/vol/v"}},
		{name: "read-only mount", mount: v1.VolumeMount{Name: "v", ReadOnly: true}, want: &runtimeapi.Mount{HostPath: "/vol/v", Readonly: true}},
		{name: "read-only volume", mount: v1.VolumeMount{Name: "ro"}, want: &runtimeapi.Mount{HostPath: "/vol/ro", Readonly: true}},
		{name: "propagation none", mount: v1.VolumeMount{Name: "v", MountPropagation: &none}, want: &runtimeapi.Mount{HostPath: "/vol/v"}},
		{name: "to container", mount: v1.VolumeMount{Name: "v", MountPropagation: &toContainer}, want: &runtimeapi.Mount{HostPath: "/vol/v", Propagation: runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER}},
		{name: "bidirectional", mount: v1.VolumeMount{Name: "v", MountPropagation: &both}, want: &runtimeapi.Mount{HostPath: "/vol/v", Propagation: runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL}},
		{name: "unknown propagation", mount: v1.VolumeMount{Name: "v", MountPropagation: new(v1.MountPropagationMode("X"))}, fails: "invalid mode"},
		{name: "no such volume", mount: v1.VolumeMount{Name: "none"}, fails: `volumeMounts[0]: cannot find volume "none"`},
		{name: "block volume", mount: v1.VolumeMount{Name: "block"}, fails: "no files"},
		{name: "relabel", mount: v1.VolumeMount{Name: "own"}, node: selinux, want: &runtimeapi.Mount{HostPath: "/vol/own", SelinuxRelabel: true}},
		{name: "relabel without SELinux", mount: v1.VolumeMount{Name: "own"}, want: &runtimeapi.Mount{HostPath: "/vol/own"}},
		{name: "no relabel of others' files", mount: v1.VolumeMount{Name: "v"}, node: selinux, want: &runtimeapi.Mount{HostPath: "/vol/v"}},

		{name: "recursive", mount: v1.VolumeMount{Name: "v", ReadOnly: true, RecursiveReadOnly: &enabled}, node: able, want: &runtimeapi.Mount{HostPath: "/vol/v", Readonly: true, RecursiveReadOnly: true}},
		{name: "recursive, not able", mount: v1.VolumeMount{Name: "v", ReadOnly: true, RecursiveReadOnly: &enabled}, fails: `failed to resolve recursive read-only mode: volume "v" requested recursive read-only mode, but it is not supported by the runtime`},
		{name: "recursive, not read-only", mount: v1.VolumeMount{Name: "v", RecursiveReadOnly: &enabled}, node: able, fails: "it is not read-only"},
		{name: "recursive, propagated", mount: v1.VolumeMount{Name: "v", ReadOnly: true, RecursiveReadOnly: &enabled, MountPropagation: &both}, node: able, fails: "not compatible with propagation"},
		{name: "if possible", mount: v1.VolumeMount{Name: "v", ReadOnly: true, RecursiveReadOnly: &possible, MountPropagation: &none}, node: able, want: &runtimeapi.Mount{HostPath: "/vol/v", Readonly: true, RecursiveReadOnly: true}},
		{name: "if possible, not able", mount: v1.VolumeMount{Name: "v", ReadOnly: true, RecursiveReadOnly: &possible}, want: &runtimeapi.Mount{HostPath: "/vol/v", Readonly: true}},
		{name: "disabled", mount: v1.VolumeMount{Name: "v", RecursiveReadOnly: &disabled}, node: able, want: &runtimeapi.Mount{HostPath: "/vol/v"}},
		{name: "unknown recursive", mount: v1.VolumeMount{Name: "v", ReadOnly: true, RecursiveReadOnly: new(v1.RecursiveReadOnlyMode("X"))}, node: able, fails: `unknown recursive read-only mode "X"`},

		{name: "sub path", mount: v1.VolumeMount{Name: "v", SubPath: "a/b"}, want: &runtimeapi.Mount{HostPath: "/vol/v/a/b"}},
		{name: "sub path with dots in names", mount: v1.VolumeMount{Name: "v", SubPath: "..a/b.."}, want: &runtimeapi.Mount{HostPath: "/vol/v/..a/b.."}},
		{name: "sub path up", mount: v1.VolumeMount{Name: "v", SubPath: "a/../../b"}, fails: "must not contain '..'"},
		{name: "sub path absolute", mount: v1.VolumeMount{Name: "v", SubPath: "/a"}, fails: "must not be an absolute path"},
		{name: "sub path with NUL", mount: v1.VolumeMount{Name: "v", SubPath: "a\x00b"}, fails: "NUL"},
		{name: "expression", mount: v1.VolumeMount{Name: "v", SubPathExpr: "$(A)/x-$(B)$$(A)"}, want: &runtimeapi.Mount{HostPath: "/vol/v/1/x-2$(A)"}},
		{name: "expression misses", mount: v1.VolumeMount{Name: "v", SubPathExpr: "$(Z)$(EMPTY)$(A)$(Y)$(Z)"}, fails: "missing value for EMPTY, Y, Z"},
		{name: "expression escapes", mount: v1.VolumeMount{Name: "v", SubPathExpr: "$(UP)/x"}, fails: "must not contain '..'"},
		{name: "expression absolute", mount: v1.VolumeMount{Name: "v", SubPathExpr: "$(ROOT)"}, fails: "absolute"},

		{name: "image", mount: v1.VolumeMount{Name: "image"}, want: &runtimeapi.Mount{
			Readonly: true, Image: &runtimeapi.ImageSpec{Image: "sha256:7", UserSpecifiedImage: "data:v1", RuntimeHandler: "kata", Annotations: map[string]string{"k": "v"}},
		}},
		{name: "part of an image", mount: v1.VolumeMount{Name: "image", SubPath: "etc", ReadOnly: true, RecursiveReadOnly: &possible}, node: able, want: &runtimeapi.Mount{
			Readonly: true, RecursiveReadOnly: true, ImageSubPath: "etc",
			Image: &runtimeapi.ImageSpec{Image: "sha256:7", UserSpecifiedImage: "data:v1", RuntimeHandler: "kata", Annotations: map[string]string{"k": "v"}},
		}},
		{name: "image not pulled", mount: v1.VolumeMount{Name: "absent"}, fails: `the image of volume "absent" has not been pulled`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, m := withObjects(t)
			if tc.node != nil {
				tc.node(h)
			}
			pod := testPod("a")
			pod.Annotations = map[string]string{"k": "v"}
			m.SetVolume(pod.UID, "v", volume.Mounted{Path: "/vol/v"})
			m.SetVolume(pod.UID, "ro", volume.Mounted{Path: "/vol/ro", ReadOnly: true})
			m.SetVolume(pod.UID, "own", volume.Mounted{Path: "/vol/own", Relabel: true})
			m.SetVolume(pod.UID, "block", volume.Mounted{Device: "/dev/x"})
			image := v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "data:v1"}}
			pod.Spec.Volumes = []v1.Volume{{Name: "image", VolumeSource: image}, {Name: "absent", VolumeSource: image}}
			c := &pod.Spec.Containers[0]
			c.Env = []v1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}, {Name: "EMPTY"}, {Name: "UP", Value: ".."}, {Name: "ROOT", Value: "/etc"}}
			tc.mount.MountPath = "/m"
			c.VolumeMounts = []v1.VolumeMount{tc.mount}
			config, err := h.builder().Container(t.Context(), Instance{
				Pod: pod, Container: c, RuntimeHandler: "kata", ImageVolumes: map[string]Image{"image": {Ref: "sha256:7", UserSpecified: "data:v1"}},
			})
			if tc.fails != "" {
				require.ErrorContains(t, err, tc.fails)
				require.Empty(t, m.prepared)
				return
			}
			require.NoError(t, err)
			tc.want.ContainerPath = "/m"
			require.Equal(t, tc.want.String(), config.Mounts[0].String())
		})
	}
}

// The agent's own files are not mounted at paths where the container mounts a volume.
func TestOwnFiles(t *testing.T) {
	h, m := withObjects(t)
	h.cfg.Node.SELinux = true
	pod := testPod("a")
	m.SetVolume(pod.UID, "v", volume.Mounted{Path: "/vol/v"})
	c := &pod.Spec.Containers[0]
	in := Instance{Pod: pod, Container: c, HostsFile: "/pods/hosts", TerminationFile: "/pods/message"}
	config, err := h.builder().Container(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, []*runtimeapi.Mount{
		{ContainerPath: "/etc/hosts", HostPath: "/pods/hosts", SelinuxRelabel: true},
		{ContainerPath: "/dev/termination-log", HostPath: "/pods/message", SelinuxRelabel: true},
	}, config.Mounts)
	c.VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/etc/hosts"}, {Name: "v", MountPath: "/dev/termination-log"}, {Name: "v", MountPath: "rel/"}, {Name: "v", MountPath: "/as//it/is/"}}
	config, err = h.builder().Container(t.Context(), in)
	require.NoError(t, err)
	require.Len(t, config.Mounts, 4)
	require.Equal(t, []string{"/rel", "/as//it/is/"}, []string{config.Mounts[2].ContainerPath, config.Mounts[3].ContainerPath})
	require.True(t, MountsAt(c, "/etc/hosts"))
	require.False(t, MountsAt(c, "/etc"))
	in.HostsFile, c.TerminationMessagePath, c.VolumeMounts = "", "", nil
	config, err = h.builder().Container(t.Context(), in)
	require.NoError(t, err)
	require.Empty(t, config.Mounts, "it wants no message")
	in.TerminationFile, c.TerminationMessagePath = "", "/dev/termination-log"
	config, err = h.builder().Container(t.Context(), in)
	require.NoError(t, err)
	require.Empty(t, config.Mounts)
}

// subPaths fails for some volumes, or on release.
type subPaths struct {
	*Memory
	bad     string
	release error
	after   func()
}

func (s *subPaths) Prepare(ctx context.Context, p volume.SubPath) (string, error) {
	if p.Volume == s.bad {
		return "", errors.New("/host/secret: link")
	}
	if s.after != nil {
		defer s.after()
	}
	return s.Memory.Prepare(ctx, p)
}

func (s *subPaths) Release(ctx context.Context, p volume.SubPath) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return errors.Join(s.release, s.Memory.Release(ctx, p))
}

// C45: if the container is not created, its sub paths are released, and the error reveals no
// details of the node.
func TestSubPathsAreReleased(t *testing.T) {
	h, m := withObjects(t)
	pod := testPod("a")
	m.SetVolume(pod.UID, "good", volume.Mounted{Path: "/vol/good"})
	m.SetVolume(pod.UID, "bad", volume.Mounted{Path: "/vol/bad"})
	c := &pod.Spec.Containers[0]
	s := &subPaths{Memory: m, bad: "bad"}
	h.cfg.SubPaths = s
	in := Instance{Pod: pod, Container: c}
	c.VolumeMounts = []v1.VolumeMount{{Name: "good", SubPath: "x"}, {Name: "good", SubPath: "y"}}
	_, err := h.builder().Container(t.Context(), in)
	require.NoError(t, err)
	require.Len(t, m.prepared, 2)
	require.True(t, m.prepared[volume.SubPath{PodUID: pod.UID, Container: "a", Index: 1, Volume: "good", VolumePath: "/vol/good", Path: "y"}])
	m.prepared = nil

	for _, last := range []v1.VolumeMount{{Name: "bad", SubPath: "z"}, {Name: "none"}, {Name: "good", SubPath: ".."}} {
		c.VolumeMounts = append(c.VolumeMounts[:2:2], last)
		_, err = h.builder().Container(t.Context(), in)
		require.ErrorContains(t, err, "volumeMounts[2]")
		require.NotContains(t, err.Error(), "/host/secret")
		require.Empty(t, m.prepared)
	}
	s.release = errors.New("/host/secret is busy")
	_, err = h.builder().Container(t.Context(), in)
	require.ErrorContains(t, err, "failed to release subPath")
	require.NotContains(t, err.Error(), "/host/secret")
	require.ErrorIs(t, err, s.release)
	s.release = nil

	// A missing secret is detected before any sub path is prepared.
	c.Env = []v1.EnvVar{from(v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: local("none")}})}
	_, err = h.builder().Container(t.Context(), in)
	require.ErrorContains(t, err, `secret "none" not found`)
	require.Empty(t, m.prepared)

	// Cancellation releases the prepared sub paths.
	c.Env, c.VolumeMounts = nil, c.VolumeMounts[:2]
	ctx, cancel := context.WithCancel(t.Context())
	s.after = cancel
	_, err = h.builder().Container(ctx, in)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, m.prepared)
	h.cfg.SubPaths = nil
	_, err = h.builder().Container(t.Context(), in)
	require.ErrorContains(t, err, "no sub paths")
	h.cfg.Volumes = nil
	_, err = h.builder().Container(t.Context(), in)
	require.ErrorContains(t, err, "no volumes")
}

// faulty returns the given errors for volumes and sub paths.
type faulty struct {
	*Memory
	volume, path error
}

func (f faulty) Volume(context.Context, *v1.Pod, string) (volume.Mounted, error) {
	return volume.Mounted{Path: "/vol/v"}, f.volume
}

func (f faulty) Prepare(context.Context, volume.SubPath) (string, error) { return "/vol/v/x", f.path }

func TestBlockDevices(t *testing.T) {
	h, m := withObjects(t)
	pod := testPod("a")
	m.SetVolume(pod.UID, "rw", volume.Mounted{Device: "/dev/disk/rw"})
	m.SetVolume(pod.UID, "ro", volume.Mounted{Device: "/dev/disk/ro", ReadOnly: true})
	m.SetVolume(pod.UID, "files", volume.Mounted{Path: "/vol"})
	get := func(devices ...v1.VolumeDevice) ([]*runtimeapi.Device, error) {
		config, err := h.builder().Container(t.Context(), Instance{Pod: pod, Container: &v1.Container{Name: "a", VolumeDevices: devices}})
		return config.GetDevices(), err
	}
	got, err := get(v1.VolumeDevice{Name: "rw", DevicePath: "/dev/a"}, v1.VolumeDevice{Name: "ro", DevicePath: "/dev/b"})
	require.NoError(t, err)
	require.Equal(t, []*runtimeapi.Device{
		{HostPath: "/dev/disk/rw", ContainerPath: "/dev/a", Permissions: "mrw"},
		{HostPath: "/dev/disk/ro", ContainerPath: "/dev/b", Permissions: "r"},
	}, got)
	for text, device := range map[string]v1.VolumeDevice{
		"not an absolute path": {Name: "rw", DevicePath: "dev"}, "not a block device": {Name: "files", DevicePath: "/d"}, `cannot find volume "none"`: {Name: "none", DevicePath: "/d"},
	} {
		_, err := get(device)
		require.ErrorContains(t, err, "volumeDevices[0]")
		require.ErrorContains(t, err, text)
	}
}

// For all expressions and values, a sub path never leads up or to the root.
func FuzzSubPath(f *testing.F) {
	f.Add("$(A)/x", "..")
	f.Add("a/$(A)$(A)", ".")
	f.Add("$(A)", "/")
	f.Fuzz(func(t *testing.T, expr, value string) {
		m := mountBuild{env: &environment{values: map[string]string{"A": value}}}
		path, err := m.subPath(&v1.VolumeMount{SubPathExpr: expr})
		if err == nil && path != "" {
			require.NotEqual(t, byte('/'), path[0])
			require.NotContains(t, "/"+path+"/", "/../")
		}
	})
}

// If a field of the volume is at fault, the error names that field; otherwise it names the mount.
// A start that is cancelled during Prepare returns the context's error.
func TestFaultsOfVolumes(t *testing.T) {
	h, m := withObjects(t)
	pod := testPod("a")
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v", SubPath: "x"}}
	build := func(ctx context.Context, f faulty) error {
		f.Memory = m
		h.cfg.Volumes, h.cfg.SubPaths = f, f
		_, err := h.builder().Container(ctx, Instance{Pod: pod, Container: &pod.Spec.Containers[0]})
		return err
	}
	field := fmt.Errorf("deep: %w", &volume.FieldError{Path: "spec.volumes[0].hostPath.type", Err: errors.New("no such type")})
	fault := (*volume.FieldError)(nil)
	err := build(t.Context(), faulty{volume: field})
	require.EqualError(t, err, field.Error())
	require.ErrorAs(t, err, &fault)
	err = build(t.Context(), faulty{volume: errors.New("not here")})
	require.EqualError(t, err, `spec.containers[0].volumeMounts[0]: cannot find volume "v": not here`)
	require.False(t, errors.As(err, &fault))
	cutOff := faulty{path: errors.New("cut off in /host/secret")}
	require.ErrorContains(t, build(t.Context(), cutOff), `failed to prepare subPath for volumeMount "v" of container "a"`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = build(ctx, cutOff)
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, err.Error(), "subPath for")
}

func TestHostPaths(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	kind := v1.HostPathFile
	source := func(name, path string) v1.Volume {
		return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: &kind}}}
	}
	pod := &v1.Pod{Spec: v1.PodSpec{Volumes: []v1.Volume{source("good", file), source("bad", dir), {Name: "other"}, source("absent", "/nowhere/x")}}}
	got, err := HostPaths{}.Volume(t.Context(), pod, "good")
	require.NoError(t, err)
	require.Equal(t, volume.Mounted{Path: file}, got)
	_, err = HostPaths{}.Volume(t.Context(), pod, "bad")
	require.ErrorContains(t, err, `spec.volumes[1].hostPath.type: "File": `+dir)
	_, err = HostPaths{}.Volume(t.Context(), pod, "absent")
	require.ErrorContains(t, err, "spec.volumes[3].hostPath.path: stat /nowhere/x")
	for _, name := range []string{"other", "missing"} {
		_, err = HostPaths{}.Volume(t.Context(), pod, name)
		require.ErrorIs(t, err, ErrNotFound)
	}
}
