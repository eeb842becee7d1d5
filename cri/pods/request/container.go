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
	// Container is one of its init or regular containers, or an ephemeral one as
	// Ephemeral turns it. Required; it is not changed.
	Container *v1.Container
	// Image is the container's image.
	Image Image
	// RestartCount is the number of the instance, 0 for the first.
	RestartCount int32
	// PodIPs are the pod's addresses, see Builder.PodIPs.
	PodIPs []string
	// TargetID is, for an ephemeral container, the runtime's ID of the container
	// whose processes it is to see; zero means none. It counts only if the
	// containers of the pod do not share processes anyway.
	TargetID string
	// RuntimeHandler is the pod's runtime handler; zero means the default one.
	RuntimeHandler string
	// HostsFile is the file on the node that becomes /etc/hosts, unless the
	// container mounts something there; zero means the runtime's own.
	HostsFile string
	// TerminationFile is the file on the node that becomes the termination
	// message path, unless the container mounts something there; zero means
	// none.
	TerminationFile string
	// ImageVolumes are the images of the pod's image volumes, by volume name.
	// Only Ref and UserSpecified count.
	ImageVolumes map[string]Image
}

// Ephemeral returns an ephemeral container in the form of all others. Its target
// is Instance.TargetID's matter.
func Ephemeral(c *v1.EphemeralContainer) *v1.Container {
	out := v1.Container(c.EphemeralContainerCommon)
	return &out
}

// Container is the configuration of a container. An error is about this
// container alone, and names the field of its spec; it is nothing that a user
// must not see. What was prepared for a container that fails is released.
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
		err = ctx.Err() // nothing is handed to somebody who has left
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

// config is the part of the configuration that needs nothing from outside.
func (b *Builder) config(in Instance, env *environment) *runtimeapi.ContainerConfig {
	c := in.Container
	out := &runtimeapi.ContainerConfig{
		Metadata:   &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: uint32(in.RestartCount)},
		Image:      &runtimeapi.ImageSpec{Image: in.Image.Ref, UserSpecifiedImage: in.Image.UserSpecified},
		WorkingDir: c.WorkingDir,
		Envs:       env.keyValues(),
		Labels:     containerLabels(in.Pod, c),
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

// check refuses what an API server would not let through, and what would start
// as something else than was asked for.
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

// devices are what plugins and claims give, and block volumes.
func (b *Builder) devices(ctx context.Context, in Instance) (Devices, error) {
	var out Devices
	var err error
	if b.cfg.Devices != nil {
		if out, err = b.cfg.Devices(ctx, in.Pod, in.Container); err != nil {
			return Devices{}, err
		}
	} else if name := wantsDevices(in.Container); name != "" {
		return Devices{}, fmt.Errorf("%s.resources: this agent has nothing that gives out %q", fieldOf(in), name)
	}
	block, err := b.blockDevices(ctx, in)
	out.Devices = append(slices.Clone(out.Devices), block...)
	return out, err
}

// wantsDevices names something that only a device plugin or a claim provides,
// "" if the container asks for nothing of the kind.
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

// mapUsers lets the users of a pod own on a mount what the same users own
// outside.
func mapUsers(mounts []*runtimeapi.Mount, users *runtimeapi.UserNamespace) {
	for i, mount := range mounts {
		// A mount may be the caller's own, and be handed in again.
		mounts[i] = &runtimeapi.Mount{
			ContainerPath: mount.ContainerPath, HostPath: mount.HostPath, Readonly: mount.Readonly, SelinuxRelabel: mount.SelinuxRelabel,
			Propagation: mount.Propagation, RecursiveReadOnly: mount.RecursiveReadOnly, Image: mount.Image, ImageSubPath: mount.ImageSubPath,
			UidMappings: users.GetUids(), GidMappings: users.GetGids(),
		}
	}
}

// stopSignal is the runtime's form of a signal's name: SIGNAL_SIGRTMINPLUS3 is
// SIGRTMIN+3. It tells whether there is such a signal.
func stopSignal(name v1.Signal) (runtimeapi.Signal, bool) {
	if !strings.HasPrefix(string(name), "SIG") {
		return 0, false
	}
	text := strings.NewReplacer("+", "PLUS", "-", "MINUS").Replace(string(name))
	signal, ok := runtimeapi.Signal_value["SIGNAL_"+text]
	return runtimeapi.Signal(signal), ok
}

// CgroupResources turns CPU in thousandths and memory in bytes into what the
// cgroup of a pod or container is given when it is resized in place (KEP-1287); a
// negative request means the limit, and a limit of zero none.
func (b *Builder) CgroupResources(cpuRequest, cpuLimit, memoryLimit int64) *runtimeapi.LinuxContainerResources {
	return b.cfg.Node.linux(amounts{requestMilli: cpuRequest, limitMilli: cpuLimit, memory: memoryLimit})
}
