package request

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Image is a pulled image, as far as a container needs it.
type Image struct {
	// Ref is the runtime's reference to the image, for creating the container.
	Ref string
	// UserSpecified is the image name in the spec.
	UserSpecified string
	// UID is the numeric user of the image. It is nil if the image has no user or a Username.
	UID *int64
	// Username is the image's user, if the image has a user name.
	Username string
}

// Instance describes a container to create.
type Instance struct {
	// Pod is the container's pod. Required. It is not changed.
	Pod *v1.Pod
	// Container is one of the pod's init or regular containers, or an ephemeral one, converted to
	// v1.Container. Required. It is not changed.
	Container *v1.Container
	Image     Image
	// RestartCount is the number of the instance. The first has 0.
	RestartCount int32
	// PodIPs are the pod's addresses, see Builder.PodIPs.
	PodIPs []string
	// TargetID is the runtime ID of the container whose processes an ephemeral container shares.
	// Optional. It is ignored if the pod's containers share processes anyway.
	TargetID string
	// RuntimeHandler is the pod's runtime handler. Empty selects the default handler.
	RuntimeHandler string
	// HostsFile is the node's file to mount as /etc/hosts, unless the container mounts a volume
	// there. Without it the container gets the runtime's file.
	HostsFile string
	// TerminationFile is the node's file to mount at the termination message path, unless the
	// container mounts a volume there. Optional.
	TerminationFile string
	// ImageVolumes are the images of the pod's image volumes, by volume name. Only Ref and
	// UserSpecified are used.
	ImageVolumes map[string]Image
}

// HandlerFeatures returns the features of the pod's runtime handler.
func (b *Builder) HandlerFeatures(pod *v1.Pod) HandlerFeatures { return b.cfg.HandlerFeatures(pod) }

// Container returns the configuration of a container. An error names the field of the container's
// spec, affects only this container, and reveals no details of the node. On error the prepared
// sub paths are released.
func (b *Builder) Container(ctx context.Context, in Instance) (*runtimeapi.ContainerConfig, error) {
	if in.Pod == nil || in.Container == nil {
		return nil, errors.New("request: Instance.Pod and Instance.Container are required")
	}
	if err := b.check(in); err != nil {
		return nil, err
	}
	security, err := b.containerSecurity(in)
	if err != nil {
		return nil, err
	}
	devices, err := b.devices(ctx, in)
	if err != nil {
		return nil, err
	}
	env, err := b.makeEnv(ctx, in, devices.Env)
	if err != nil {
		return nil, err
	}
	command, err := env.expandAll(fieldOf(in)+".command", in.Container.Command)
	if err != nil {
		return nil, err
	}
	args, err := env.expandAll(fieldOf(in)+".args", in.Container.Args)
	if err != nil {
		return nil, err
	}
	m := &mountBuild{Builder: b, in: in, env: env, features: b.cfg.HandlerFeatures(in.Pod)}
	mounts, err := m.mounts(ctx, devices.Mounts)
	if err == nil {
		err = ctx.Err() // the caller no longer uses the result
	}
	if err != nil {
		return nil, errors.Join(err, m.release(ctx))
	}
	mapUsers(mounts, security.NamespaceOptions.UsernsOptions)
	config := b.config(in, env)
	config.Command, config.Args = command, args
	config.Mounts, config.Devices = mounts, devices.Devices
	for _, name := range devices.CDI {
		config.CDIDevices = append(config.CDIDevices, &runtimeapi.CDIDevice{Name: name})
	}
	config.Annotations = containerAnnotations(in, devices.Annotations)
	config.Linux = &runtimeapi.LinuxContainerConfig{Resources: b.ContainerResources(in.Pod, in.Container), SecurityContext: security}
	return config, nil
}

// config returns the part of the configuration that depends only on the instance and its
// environment.
func (b *Builder) config(in Instance, env *environment) *runtimeapi.ContainerConfig {
	c := in.Container
	out := &runtimeapi.ContainerConfig{
		Metadata:   &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: uint32(in.RestartCount)},
		Image:      &runtimeapi.ImageSpec{Image: in.Image.Ref, UserSpecifiedImage: in.Image.UserSpecified},
		WorkingDir: c.WorkingDir,
		Envs:       env.keyValues(),
		Labels:     b.containerLabels(in.Pod, c),
		LogPath:    LogPath(c.Name, in.RestartCount),
		Stdin:      c.Stdin,
		StdinOnce:  c.StdinOnce,
		Tty:        c.TTY,
	}
	if c.Lifecycle != nil && c.Lifecycle.StopSignal != nil {
		out.StopSignal, _ = stopSignal(*c.Lifecycle.StopSignal)
	}
	return out
}

// check refuses values that an API server rejects, and values that would change their meaning in
// the conversion.
func (b *Builder) check(in Instance) error {
	if in.RestartCount < 0 {
		return fmt.Errorf("request: Instance.RestartCount is negative: %d", in.RestartCount)
	}
	if err := checkPorts(in.Container.Ports); err != nil {
		return err
	}
	if l := in.Container.Lifecycle; l != nil && l.StopSignal != nil {
		if _, ok := stopSignal(*l.StopSignal); !ok {
			return fmt.Errorf("%s.lifecycle.stopSignal: unknown signal %q", fieldOf(in), *l.StopSignal)
		}
	}
	return nil
}

// devices returns the devices from plugins, claims and block volumes.
func (b *Builder) devices(ctx context.Context, in Instance) (Devices, error) {
	var out Devices
	var err error
	if b.cfg.Devices != nil {
		if out, err = b.cfg.Devices(ctx, in.Pod, in.Container); err != nil {
			return Devices{}, err
		}
	} else if name := wantsDevices(in.Container); name != "" {
		return Devices{}, fmt.Errorf("%s.resources: this agent does not allocate %q", fieldOf(in), name)
	}
	block, err := b.blockDevices(ctx, in)
	out.Devices = append(slices.Clone(out.Devices), block...)
	return out, err
}

// wantsDevices returns the name of a resource or claim that only a device plugin or claim can
// provide, or "".
func wantsDevices(c *v1.Container) string {
	for _, claim := range c.Resources.Claims {
		return claim.Name
	}
	for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
		quantity := c.Resources.Limits[name]
		domain, _, extended := strings.Cut(string(name), "/")
		if extended && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io") && !quantity.IsZero() {
			return string(name)
		}
	}
	return ""
}

// mapUsers adds the pod's ID mappings to all mounts, so that the pod's users own the same files
// inside as outside.
func mapUsers(mounts []*runtimeapi.Mount, users *runtimeapi.UserNamespace) {
	for i, mount := range mounts {
		// A mount may belong to the caller and be used again.
		mounts[i] = &runtimeapi.Mount{
			ContainerPath: mount.ContainerPath, HostPath: mount.HostPath, Readonly: mount.Readonly, SelinuxRelabel: mount.SelinuxRelabel,
			Propagation: mount.Propagation, RecursiveReadOnly: mount.RecursiveReadOnly, Image: mount.Image, ImageSubPath: mount.ImageSubPath,
			UidMappings: users.GetUids(), GidMappings: users.GetGids(),
		}
	}
}

// stopSignal converts a signal name to the runtime's form, SIGRTMIN+3 to SIGNAL_SIGRTMINPLUS3. It
// reports whether the signal exists.
func stopSignal(name v1.Signal) (runtimeapi.Signal, bool) {
	if !strings.HasPrefix(string(name), "SIG") {
		return 0, false
	}
	text := strings.NewReplacer("+", "PLUS", "-", "MINUS").Replace(string(name))
	signal, ok := runtimeapi.Signal_value["SIGNAL_"+text]
	return runtimeapi.Signal(signal), ok
}

// CgroupResources returns the resources of a pod or container cgroup for an in-place resize
// (KEP-1287). CPU is in millicores, memory in bytes. A negative request stands for the limit; a
// limit of zero means no limit.
func (b *Builder) CgroupResources(cpuRequest, cpuLimit, memoryLimit int64) *runtimeapi.LinuxContainerResources {
	return b.cfg.Node.linux(amounts{requestMilli: cpuRequest, limitMilli: cpuLimit, memory: memoryLimit})
}
