package request

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Image is an image that is present, as far as a container depends on it.
type Image struct {
	// Ref is the runtime's own reference, to create the container with.
	Ref string
	// UserSpecified is the image as the spec names it.
	UserSpecified string
	// UID is the numeric user the image runs as, nil when the image names
	// none or names it by Username.
	UID *int64
	// Username is the user the image runs as, if it names one.
	Username string
}

// Instance is one container about to be created.
type Instance struct {
	// Pod is the container's pod. Required; it is not changed.
	Pod *v1.Pod
	// Container is one of its containers. Required; it is not changed.
	Container *v1.Container
	// Image is the container's image.
	Image Image
	// RestartCount is the number of the instance, 0 for the first.
	RestartCount int32
	// PodIPs are the pod's addresses, see Builder.PodIPs.
	PodIPs []string
	// HostsFile is the file on the node that becomes /etc/hosts, unless the
	// container mounts something there; zero means the runtime's own.
	HostsFile string
	// TerminationFile is the file on the node that becomes the termination
	// message path, unless the container mounts something there; zero means
	// none.
	TerminationFile string
	// Mounts are the mounts of the container's volumes.
	Mounts []*runtimeapi.Mount
}

// Container is the configuration of a container.
func (b *Builder) Container(in Instance) (*runtimeapi.ContainerConfig, error) {
	pod, c := in.Pod, in.Container
	env, err := makeEnv(pod, c, b.fields(in))
	if err != nil {
		return nil, err
	}
	annotations, err := containerAnnotations(pod, c, in.RestartCount)
	if err != nil {
		return nil, err
	}
	security, err := b.containerSecurity(pod, c, in.Image)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: uint32(in.RestartCount)},
		Image:       &runtimeapi.ImageSpec{Image: in.Image.Ref, UserSpecifiedImage: in.Image.UserSpecified},
		Command:     env.expandAll(c.Command),
		Args:        env.expandAll(c.Args),
		WorkingDir:  c.WorkingDir,
		Envs:        env.keyValues(),
		Mounts:      mounts(in),
		Labels:      containerLabels(pod, c),
		Annotations: annotations,
		LogPath:     LogPath(c.Name, in.RestartCount),
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       containerResources(pod, c, b.cfg.Node),
			SecurityContext: security,
		},
	}, nil
}

func (b *Builder) fields(in Instance) fields {
	f := fields{nodeName: b.cfg.Node.Name, hostIPs: b.cfg.Node.IPs, podIPs: in.PodIPs}
	if in.Pod.Spec.NodeName != "" {
		f.nodeName = in.Pod.Spec.NodeName
	}
	return f
}

// HostsPath is where containers see the hosts file.
const HostsPath = "/etc/hosts"

// mounts are those of the volumes, and the pod's /etc/hosts and the container's
// termination message file unless something else is mounted there.
func mounts(in Instance) []*runtimeapi.Mount {
	out := slices.Clone(in.Mounts)
	add := func(path, file string) {
		taken := slices.ContainsFunc(in.Mounts, func(m *runtimeapi.Mount) bool { return m.ContainerPath == path })
		if path != "" && file != "" && !taken {
			out = append(out, &runtimeapi.Mount{ContainerPath: path, HostPath: file})
		}
	}
	add(HostsPath, in.HostsFile)
	add(in.Container.TerminationMessagePath, in.TerminationFile)
	return out
}
