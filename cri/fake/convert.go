package fake

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Everything here makes messages for callers. They own what they get, so nothing
// that the runtime keeps may be in it, except for maps: those of a config never
// change after its creation, callers only read them, and all replies share them.

func join(name, namespace, uid string, attempt uint32) string {
	return fmt.Sprintf("%s_%s_%s_%d", name, namespace, uid, attempt)
}

// clone copies a message, nil for nil.
func clone[M proto.Message](m M) M {
	return proto.Clone(m).(M)
}

func cloneAll[M proto.Message](messages []M) []M {
	if len(messages) == 0 {
		return nil
	}
	out := make([]M, len(messages))
	for i, m := range messages {
		out[i] = clone(m)
	}
	return out
}

func fillSandboxMetadata(to *runtimeapi.PodSandboxMetadata, name sandboxName) {
	to.Name, to.Uid, to.Namespace, to.Attempt = name.name, name.uid, name.namespace, name.attempt
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
		e.container.Labels = c.config.Labels
		e.container.Annotations = c.config.Annotations
		out[i] = &e.container
	}
	return out
}

func fillImageSpec(to, from *runtimeapi.ImageSpec) {
	to.Image, to.UserSpecifiedImage = from.GetImage(), from.GetUserSpecifiedImage()
	to.RuntimeHandler, to.ImageRef = from.GetRuntimeHandler(), from.GetImageRef()
	to.Annotations = from.GetAnnotations()
}

// statusEntry is a container status with all that every one has, to be allocated
// together.
type statusEntry struct {
	status    runtimeapi.ContainerStatus
	metadata  runtimeapi.ContainerMetadata
	image     runtimeapi.ImageSpec
	user      runtimeapi.ContainerUser
	linux     runtimeapi.LinuxContainerUser
	resources runtimeapi.ContainerResources
}

func (c *container) status() *runtimeapi.ContainerStatus {
	return c.fillStatus(&statusEntry{}, &c.containerState)
}

// fillStatus makes the status of c as it was at some moment.
func (c *container) fillStatus(e *statusEntry, was *containerState) *runtimeapi.ContainerStatus {
	e.metadata.Name, e.metadata.Attempt = c.name.name, c.name.attempt
	fillImageSpec(&e.image, c.config.Image)
	tag, ref := c.image.names()
	if tag != "" {
		e.image.Image = tag
	}
	c.fillUser(&e.linux)
	e.user.Linux = &e.linux

	s := &e.status
	s.Id, s.Metadata, s.State = c.id, &e.metadata, was.state
	s.CreatedAt, s.StartedAt, s.FinishedAt = c.createdAt, was.startedAt, was.finishedAt
	s.ExitCode, s.Reason, s.Message = was.exitCode, was.reason, was.message
	s.Image, s.ImageRef, s.ImageId = &e.image, ref, c.image.id
	s.Labels, s.Annotations = c.config.Labels, c.config.Annotations
	s.LogPath, s.Mounts, s.User = c.logPath, copyMounts(c.config.Mounts), &e.user
	s.StopSignal = effectiveStopSignal(c.config.StopSignal)
	if was.resources != nil {
		e.resources.Linux = copyResources(was.resources)
		s.Resources = &e.resources
	}
	return s
}

func effectiveStopSignal(signal runtimeapi.Signal) runtimeapi.Signal {
	if signal == runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		return runtimeapi.Signal_SIGNAL_SIGTERM
	}
	return signal
}

// fillUser gives the identity of the first process: what the security context
// says, else the image's user, else root.
func (c *container) fillUser(user *runtimeapi.LinuxContainerUser) {
	user.Uid = c.image.uid
	security := c.config.GetLinux().GetSecurityContext()
	if security.GetRunAsUser() != nil {
		user.Uid = security.GetRunAsUser().GetValue()
	}
	if security.GetRunAsGroup() != nil {
		user.Gid = security.GetRunAsGroup().GetValue()
	}
	user.SupplementalGroups = slices.Clone(security.GetSupplementalGroups())
}

// listedSandboxes makes list entries of sandboxes, allocated together too.
func listedSandboxes(sandboxes []*sandbox) []*runtimeapi.PodSandbox {
	type entry struct {
		sandbox  runtimeapi.PodSandbox
		metadata runtimeapi.PodSandboxMetadata
	}
	entries := make([]entry, len(sandboxes))
	out := make([]*runtimeapi.PodSandbox, len(sandboxes))
	for i, b := range sandboxes {
		e := &entries[i]
		fillSandboxMetadata(&e.metadata, b.name)
		e.sandbox.Id, e.sandbox.Metadata = b.id, &e.metadata
		e.sandbox.State, e.sandbox.CreatedAt = b.readiness(), b.createdAt
		e.sandbox.Labels, e.sandbox.Annotations = b.config.Labels, b.config.Annotations
		e.sandbox.RuntimeHandler = b.handler
		out[i] = &e.sandbox
	}
	return out
}

func (b *sandbox) status() *runtimeapi.PodSandboxStatus { return b.statusAs(b.sandboxState) }

// statusAs makes the status of b as it was at some moment.
func (b *sandbox) statusAs(was sandboxState) *runtimeapi.PodSandboxStatus {
	e := &struct {
		status     runtimeapi.PodSandboxStatus
		metadata   runtimeapi.PodSandboxMetadata
		network    runtimeapi.PodSandboxNetworkStatus
		linux      runtimeapi.LinuxPodSandboxStatus
		namespaces runtimeapi.Namespace
	}{}
	fillSandboxMetadata(&e.metadata, b.name)
	fillNetwork(&e.network, was.ips)
	if e.namespaces.Options = clone(b.config.GetLinux().GetSecurityContext().GetNamespaceOptions()); e.namespaces.Options == nil {
		e.namespaces.Options = &runtimeapi.NamespaceOption{}
	}
	e.linux.Namespaces = &e.namespaces
	s := &e.status
	s.Id, s.Metadata, s.State, s.CreatedAt = b.id, &e.metadata, was.readiness(), b.createdAt
	s.Network, s.Linux = &e.network, &e.linux
	s.Labels, s.Annotations, s.RuntimeHandler = b.config.Labels, b.config.Annotations, b.handler
	return s
}

// fillNetwork gives a sandbox's addresses: none with host network and none once
// the network has been taken down.
func fillNetwork(network *runtimeapi.PodSandboxNetworkStatus, ips []string) {
	for i, ip := range ips {
		if i == 0 {
			network.Ip = ip
			continue
		}
		network.AdditionalIps = append(network.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
	}
}

// seen is a container as it was at some moment.
type seen struct {
	container *container
	was       containerState
}

// seen notes how the sandbox's containers are, oldest first.
func (b *sandbox) seen() []seen {
	out := make([]seen, 0, b.containers.len)
	for c := range b.containers.all() {
		out = append(out, seen{c, c.containerState})
	}
	return out
}

func statuses(of []seen) []*runtimeapi.ContainerStatus {
	entries := make([]statusEntry, len(of))
	out := make([]*runtimeapi.ContainerStatus, len(of))
	for i := range of {
		out[i] = of[i].container.fillStatus(&entries[i], &of[i].was)
	}
	return out
}

// process makes what the program of a container sees of it.
func (c *container) process(args []string) Process {
	return Process{
		Container: ContainerIdentity{
			ID: c.id, Name: c.name.name, Attempt: c.name.attempt, Image: c.config.GetImage().GetImage(),
		},
		Pod:    c.sandbox.identity(),
		Args:   args,
		Env:    slices.Clone(c.env),
		Dir:    c.config.GetWorkingDir(),
		Mounts: mountsOf(c.config.GetMounts()),
		Stdin:  NoInput{},
	}
}
