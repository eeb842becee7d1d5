package fake

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Everything here makes messages for callers. They own what they get, so nothing
// that the runtime keeps may be in it.

func join(name, namespace, uid string, attempt uint32) string {
	return fmt.Sprintf("%s_%s_%s_%d", name, namespace, uid, attempt)
}

// clone copies a message, nil for nil.
func clone[M proto.Message](m M) M {
	return proto.Clone(m).(M)
}

func sandboxMetadata(m *runtimeapi.PodSandboxMetadata) *runtimeapi.PodSandboxMetadata {
	return &runtimeapi.PodSandboxMetadata{
		Name: m.GetName(), Uid: m.GetUid(), Namespace: m.GetNamespace(), Attempt: m.GetAttempt(),
	}
}

func containerMetadata(m *runtimeapi.ContainerMetadata) *runtimeapi.ContainerMetadata {
	return &runtimeapi.ContainerMetadata{Name: m.GetName(), Attempt: m.GetAttempt()}
}

// listed makes list entries of containers. They are allocated together: a list
// of thousands is asked for again and again.
func listed(containers []*container) []*runtimeapi.Container {
	type entry struct {
		container runtimeapi.Container
		metadata  runtimeapi.ContainerMetadata
		image     runtimeapi.ImageSpec
	}
	entries := make([]entry, len(containers))
	out := make([]*runtimeapi.Container, len(containers))
	for i, c := range containers {
		e := &entries[i]
		e.metadata.Name, e.metadata.Attempt = c.name.name, c.name.attempt
		fillImageSpec(&e.image, c.config.Image)
		e.container.Id, e.container.PodSandboxId = c.id, c.sandbox.id
		e.container.Metadata, e.container.Image = &e.metadata, &e.image
		e.container.ImageRef, e.container.ImageId = c.image.id, c.image.id
		e.container.State, e.container.CreatedAt = c.state, c.createdAt
		e.container.Labels = maps.Clone(c.config.Labels)
		e.container.Annotations = maps.Clone(c.config.Annotations)
		out[i] = &e.container
	}
	return out
}

func fillImageSpec(to, from *runtimeapi.ImageSpec) {
	to.Image, to.UserSpecifiedImage = from.GetImage(), from.GetUserSpecifiedImage()
	to.RuntimeHandler, to.ImageRef = from.GetRuntimeHandler(), from.GetImageRef()
	to.Annotations = maps.Clone(from.GetAnnotations())
}

func (c *container) status() *runtimeapi.ContainerStatus {
	spec := &runtimeapi.ImageSpec{}
	fillImageSpec(spec, c.config.Image)
	spec.Image = c.image.tag
	s := &runtimeapi.ContainerStatus{
		Id:          c.id,
		Metadata:    containerMetadata(c.config.Metadata),
		State:       c.state,
		CreatedAt:   c.createdAt,
		StartedAt:   c.startedAt,
		FinishedAt:  c.finishedAt,
		ExitCode:    c.exitCode,
		Image:       spec,
		ImageRef:    c.image.digest,
		ImageId:     c.image.id,
		Reason:      c.reason,
		Message:     c.message,
		Labels:      maps.Clone(c.config.Labels),
		Annotations: maps.Clone(c.config.Annotations),
		LogPath:     c.logPath,
		User:        c.user(),
		StopSignal:  effectiveStopSignal(c.config.StopSignal),
	}
	for _, m := range c.config.Mounts {
		s.Mounts = append(s.Mounts, clone(m))
	}
	if c.resources != nil {
		s.Resources = &runtimeapi.ContainerResources{Linux: clone(c.resources)}
	}
	return s
}

func effectiveStopSignal(signal runtimeapi.Signal) runtimeapi.Signal {
	if signal == runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		return runtimeapi.Signal_SIGNAL_SIGTERM
	}
	return signal
}

// user is the identity of the first process: what the security context says,
// else the image's user, else root.
func (c *container) user() *runtimeapi.ContainerUser {
	security := c.config.GetLinux().GetSecurityContext()
	user := &runtimeapi.LinuxContainerUser{Uid: c.image.uid}
	if security.GetRunAsUser() != nil {
		user.Uid = security.GetRunAsUser().GetValue()
	}
	if security.GetRunAsGroup() != nil {
		user.Gid = security.GetRunAsGroup().GetValue()
	}
	user.SupplementalGroups = slices.Clone(security.GetSupplementalGroups())
	return &runtimeapi.ContainerUser{Linux: user}
}

func (b *sandbox) listed() *runtimeapi.PodSandbox {
	return &runtimeapi.PodSandbox{
		Id:             b.id,
		Metadata:       sandboxMetadata(b.config.Metadata),
		State:          b.state(),
		CreatedAt:      b.createdAt,
		Labels:         maps.Clone(b.config.Labels),
		Annotations:    maps.Clone(b.config.Annotations),
		RuntimeHandler: b.handler,
	}
}

func (b *sandbox) status() *runtimeapi.PodSandboxStatus {
	options := &runtimeapi.NamespaceOption{}
	if from := b.config.GetLinux().GetSecurityContext().GetNamespaceOptions(); from != nil {
		options = clone(from)
	}
	return &runtimeapi.PodSandboxStatus{
		Id:             b.id,
		Metadata:       sandboxMetadata(b.config.Metadata),
		State:          b.state(),
		CreatedAt:      b.createdAt,
		Network:        b.network(),
		Linux:          &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: options}},
		Labels:         maps.Clone(b.config.Labels),
		Annotations:    maps.Clone(b.config.Annotations),
		RuntimeHandler: b.handler,
	}
}

// network is the sandbox's addresses: none with host network and none once the
// network has been taken down, but never absent.
func (b *sandbox) network() *runtimeapi.PodSandboxNetworkStatus {
	network := &runtimeapi.PodSandboxNetworkStatus{}
	for i, ip := range b.ips {
		if i == 0 {
			network.Ip = ip
			continue
		}
		network.AdditionalIps = append(network.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
	}
	return network
}

// statuses describes the sandbox's containers, oldest first.
func (b *sandbox) statuses() []*runtimeapi.ContainerStatus {
	out := make([]*runtimeapi.ContainerStatus, 0, b.containers.len)
	for c := range b.containers.all() {
		out = append(out, c.status())
	}
	return out
}

// process makes what the program of a container sees of it.
func (c *container) process(args []string) *Process {
	pod := c.sandbox.config
	p := &Process{
		Container: ContainerIdentity{
			ID: c.id, Name: c.name.name, Attempt: c.name.attempt, Image: c.config.GetImage().GetImage(),
		},
		Pod: PodIdentity{
			SandboxID: c.sandbox.id, Name: c.name.podName, Namespace: c.name.namespace, UID: c.name.uid,
			IPs: slices.Clone(c.sandbox.ips),
		},
		Args:   args,
		Env:    envOf(c.config.GetEnvs()),
		Dir:    c.config.GetWorkingDir(),
		Mounts: mountsOf(c.config.GetMounts()),
		Stdin:  noInput{},
	}
	if !c.sandbox.hostNet {
		p.Pod.Hostname = pod.GetHostname()
	}
	return p
}
