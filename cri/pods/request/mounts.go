package request

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/volume"
)

// HostsPath is the path of the hosts file in containers.
const HostsPath = "/etc/hosts"

// MountsAt reports whether a container mounts a volume at a path.
func MountsAt(c *v1.Container, path string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return filepath.Clean(m.MountPath) == path })
}

// mountBuild builds the mounts of one container.
type mountBuild struct {
	*Builder
	in       Instance
	env      *environment
	features HandlerFeatures
	// prepared has the sub paths to release if the container is not created.
	prepared []volume.SubPath
	// images counts the mounted images.
	images int
}

// mounts returns the mounts of devices, then of volumes, then the pod's /etc/hosts and the
// container's termination message file, unless their paths are already mounted.
func (m *mountBuild) mounts(ctx context.Context, devices []*runtimeapi.Mount) ([]*runtimeapi.Mount, error) {
	out := slices.Clone(devices)
	for i := range m.in.Container.VolumeMounts {
		mount, err := m.volumeMount(ctx, i)
		if err != nil {
			return nil, at(fmt.Sprintf("%s.volumeMounts[%d]", fieldOf(m.in), i), err)
		}
		out = append(out, mount)
	}
	add := func(path, file string) {
		if path != "" {
			path = absolute(path)
		}
		taken := slices.ContainsFunc(out, func(m *runtimeapi.Mount) bool { return m.ContainerPath == path })
		if path != "" && file != "" && !taken {
			out = append(out, &runtimeapi.Mount{ContainerPath: path, HostPath: file, SelinuxRelabel: m.cfg.Node.SELinux})
		}
	}
	add(HostsPath, m.in.HostsFile)
	add(m.in.Container.TerminationMessagePath, m.in.TerminationFile)
	return out, nil
}

func (m *mountBuild) volumeMount(ctx context.Context, index int) (*runtimeapi.Mount, error) {
	from := &m.in.Container.VolumeMounts[index]
	out := &runtimeapi.Mount{ContainerPath: absolute(from.MountPath), Readonly: from.ReadOnly}
	var err error
	if out.Propagation, err = propagation(from.MountPropagation); err != nil {
		return nil, err
	}
	if out.RecursiveReadOnly, err = recursiveReadOnly(from, m.features); err != nil {
		return nil, fmt.Errorf("failed to resolve recursive read-only mode: %w", err)
	}
	subPath, err := m.subPath(from)
	if err != nil {
		return nil, err
	}
	if isImageVolume(m.in.Pod, from.Name) {
		return out, m.imageMount(out, from.Name, subPath)
	}
	mounted, err := m.volume(ctx, m.in.Pod, from.Name)
	if err != nil {
		return nil, err
	}
	if mounted.Path == "" {
		return nil, fmt.Errorf("volume %q has no files to mount", from.Name)
	}
	out.HostPath = mounted.Path
	out.Readonly = from.ReadOnly || mounted.ReadOnly
	out.SelinuxRelabel = mounted.Relabel && m.cfg.Node.SELinux
	if subPath != "" {
		out.HostPath, err = m.prepare(ctx, index, volume.SubPath{VolumePath: mounted.Path, Path: subPath})
	}
	return out, err
}

// absolute returns the absolute form of a path in a container. Relative paths start at the root.
func absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join("/", path)
}

func (b *Builder) volume(ctx context.Context, pod *v1.Pod, name string) (volume.Mounted, error) {
	if b.cfg.Volumes == nil {
		return volume.Mounted{}, fmt.Errorf("cannot find volume %q: this agent has no volumes", name)
	}
	mounted, err := b.cfg.Volumes.Volume(ctx, pod, name)
	if fault := (*volume.FieldError)(nil); errors.As(err, &fault) {
		return volume.Mounted{}, err
	}
	if err != nil {
		return volume.Mounted{}, fmt.Errorf("cannot find volume %q: %w", name, err)
	}
	return mounted, nil
}

func isImageVolume(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == name && v.Image != nil })
}

// imageMount mounts an image, or a directory of it (KEP-4639).
func (m *mountBuild) imageMount(out *runtimeapi.Mount, name, subPath string) error {
	image, ok := m.in.ImageVolumes[name]
	if !ok {
		return fmt.Errorf("the image of volume %q has not been pulled", name)
	}
	out.Readonly = true
	out.ImageSubPath = subPath
	out.Image = &runtimeapi.ImageSpec{
		Image:              image.Ref,
		UserSpecifiedImage: image.UserSpecified,
		RuntimeHandler:     m.in.RuntimeHandler,
		Annotations:        m.in.Pod.Annotations,
	}
	if m.images++; m.images*annotationsSize(m.in.Pod) > maxImageAnnotations {
		return fmt.Errorf("volume %q: the pod's annotations, sent with each image volume, exceed %d bytes in total", name, maxImageAnnotations)
	}
	return nil
}

const (
	// maxPath is the longest path on Linux.
	maxPath = 4095
	// maxMissing bounds the missing variables in an error.
	maxMissing = 10
)

// maxImageAnnotations bounds the size of the pod's annotations in a request, which has a copy of
// them for each image that a container mounts.
const maxImageAnnotations = 8 << 20

func annotationsSize(pod *v1.Pod) int {
	size := 0
	for key, value := range pod.Annotations {
		size += len(key) + len(value)
	}
	return size
}

// subPath returns the part of the volume to mount, or "" for the whole volume.
func (m *mountBuild) subPath(from *v1.VolumeMount) (string, error) {
	path := from.SubPath
	if from.SubPathExpr != "" {
		var missing []string
		var ok bool
		path, ok = podfacts.Expand(from.SubPathExpr, maxPath, func(name string) (string, bool) {
			value, _ := m.env.lookup(name)
			if value == "" && len(missing) < maxMissing && !slices.Contains(missing, name) {
				missing = append(missing, name)
			}
			return value, true
		})
		if !ok {
			return "", fmt.Errorf("subPathExpr: expands to more than %d bytes, the limit of a path", maxPath)
		}
		if len(missing) > 0 {
			slices.Sort(missing)
			return "", fmt.Errorf("subPathExpr: missing value for %s", strings.Join(missing, ", "))
		}
	}
	switch {
	case filepath.IsAbs(path):
		return "", fmt.Errorf("SubPath `%s` must not be an absolute path", path)
	case slices.Contains(strings.Split(path, "/"), ".."):
		return "", fmt.Errorf("SubPath `%s` must not contain '..'", path)
	case strings.Contains(path, "\x00"):
		return "", fmt.Errorf("SubPath %q has a NUL byte", path)
	}
	return path, nil
}

func (m *mountBuild) prepare(ctx context.Context, index int, s volume.SubPath) (string, error) {
	from := &m.in.Container.VolumeMounts[index]
	s.PodUID, s.Container, s.Index, s.Volume = m.in.Pod.UID, m.in.Container.Name, index, from.Name
	if m.cfg.SubPaths == nil {
		return "", fmt.Errorf("subPath of volume %q: this agent has no sub paths", from.Name)
	}
	path, err := m.cfg.SubPaths.Prepare(ctx, s)
	if ctx.Err() != nil && err != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", hide(fmt.Sprintf("failed to prepare subPath for volumeMount %q of container %q", from.Name, m.in.Container.Name), err)
	}
	m.prepared = append(m.prepared, s)
	return path, nil
}

// release reverts the prepared sub paths of a container that is not created, even if ctx is done.
func (m *mountBuild) release(ctx context.Context) error {
	var errs []error
	for _, s := range m.prepared {
		if err := m.cfg.SubPaths.Release(context.WithoutCancel(ctx), s); err != nil {
			errs = append(errs, hide(fmt.Sprintf("failed to release subPath for volumeMount %q", s.Volume), err))
		}
	}
	return errors.Join(errs...)
}

func propagation(mode *v1.MountPropagationMode) (runtimeapi.MountPropagation, error) {
	if mode == nil {
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE, nil
	}
	switch *mode {
	case v1.MountPropagationNone:
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE, nil
	case v1.MountPropagationHostToContainer:
		return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER, nil
	case v1.MountPropagationBidirectional:
		return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL, nil
	}
	return 0, fmt.Errorf("mountPropagation: invalid mode %q", *mode)
}

// recursiveReadOnly reports whether the mounts below a mount become read-only, too (KEP-3857).
func recursiveReadOnly(m *v1.VolumeMount, f HandlerFeatures) (bool, error) {
	switch {
	case m.RecursiveReadOnly == nil || *m.RecursiveReadOnly == v1.RecursiveReadOnlyDisabled:
		return false, nil
	case *m.RecursiveReadOnly != v1.RecursiveReadOnlyEnabled && *m.RecursiveReadOnly != v1.RecursiveReadOnlyIfPossible:
		return false, fmt.Errorf("unknown recursive read-only mode %q", *m.RecursiveReadOnly)
	case !m.ReadOnly:
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not read-only", m.Name)
	case m.MountPropagation != nil && *m.MountPropagation != v1.MountPropagationNone:
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not compatible with propagation %q", m.Name, *m.MountPropagation)
	case *m.RecursiveReadOnly == v1.RecursiveReadOnlyEnabled && !f.RecursiveReadOnlyMounts:
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not supported by the runtime", m.Name)
	}
	return f.RecursiveReadOnlyMounts, nil
}

// blockDevices returns the block volumes of a container.
func (b *Builder) blockDevices(ctx context.Context, in Instance) ([]*runtimeapi.Device, error) {
	var out []*runtimeapi.Device
	for i, d := range in.Container.VolumeDevices {
		field := fmt.Sprintf("%s.volumeDevices[%d]", fieldOf(in), i)
		if !filepath.IsAbs(d.DevicePath) {
			return nil, fmt.Errorf("%s.devicePath: %q is not an absolute path", field, d.DevicePath)
		}
		volume, err := b.volume(ctx, in.Pod, d.Name)
		if err != nil {
			return nil, at(field, err)
		}
		if volume.Device == "" {
			return nil, fmt.Errorf("%s: volume %q is not a block device", field, d.Name)
		}
		permissions := "mrw"
		if volume.ReadOnly {
			permissions = "r"
		}
		out = append(out, &runtimeapi.Device{HostPath: volume.Device, ContainerPath: d.DevicePath, Permissions: permissions})
	}
	return out, nil
}
