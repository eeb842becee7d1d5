package fake

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The functions of this file make messages for callers, who own them. Therefore the messages share
// no memory with the runtime, except maps: the maps of a config never change after its creation,
// callers only read them, and all replies share them.

func join(name, namespace, uid string, attempt uint32) string {
	return fmt.Sprintf("%s_%s_%s_%d", name, namespace, uid, attempt)
}

// clone copies a message; nil stays nil.
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

func (n sandboxName) metadata() *runtimeapi.PodSandboxMetadata {
	return &runtimeapi.PodSandboxMetadata{Name: n.name, Uid: n.uid, Namespace: n.namespace, Attempt: n.attempt}
}

func containerMetadata(m *runtimeapi.ContainerMetadata) *runtimeapi.ContainerMetadata {
	return &runtimeapi.ContainerMetadata{Name: m.GetName(), Attempt: m.GetAttempt()}
}

func listed(containers []*container) []*runtimeapi.Container {
	out := make([]*runtimeapi.Container, len(containers))
	for i, c := range containers {
		out[i] = &runtimeapi.Container{
			Id: c.id, PodSandboxId: c.sandbox.id, Metadata: containerMetadata(c.config.Metadata), Image: imageSpec(c.config.Image),
			ImageRef: c.image.id, ImageId: c.image.id, State: c.state, CreatedAt: c.createdAt,
			Labels: c.config.Labels, Annotations: c.config.Annotations,
		}
	}
	return out
}

func imageSpec(from *runtimeapi.ImageSpec) *runtimeapi.ImageSpec {
	return &runtimeapi.ImageSpec{
		Image: from.GetImage(), UserSpecifiedImage: from.GetUserSpecifiedImage(),
		RuntimeHandler: from.GetRuntimeHandler(), ImageRef: from.GetImageRef(), Annotations: from.GetAnnotations(),
	}
}

func (c *container) status() *runtimeapi.ContainerStatus { return c.statusAs(&c.containerState) }

// statusAs returns the status of c with a recorded state.
func (c *container) statusAs(was *containerState) *runtimeapi.ContainerStatus {
	s := &runtimeapi.ContainerStatus{
		Id: c.id, Metadata: containerMetadata(c.config.Metadata), State: was.state,
		CreatedAt: c.createdAt, StartedAt: was.startedAt, FinishedAt: was.finishedAt,
		ExitCode: was.exitCode, Reason: was.reason, Message: was.message,
		Image: imageSpec(c.config.Image), ImageId: c.image.id, Labels: c.config.Labels, Annotations: c.config.Annotations,
		LogPath: c.logPath, Mounts: cloneAll(c.config.Mounts), User: &runtimeapi.ContainerUser{Linux: c.user()},
		StopSignal: c.config.StopSignal,
	}
	var tag string
	if tag, s.ImageRef = c.image.names(); tag != "" {
		s.Image.Image = tag
	}
	if s.StopSignal == runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		s.StopSignal = runtimeapi.Signal_SIGNAL_SIGTERM
	}
	if was.resources != nil {
		s.Resources = &runtimeapi.ContainerResources{Linux: clone(was.resources)}
	}
	return s
}

// user returns the user of the first process: from the security context, else the image's user,
// else root.
func (c *container) user() *runtimeapi.LinuxContainerUser {
	security := c.config.GetLinux().GetSecurityContext()
	user := &runtimeapi.LinuxContainerUser{
		Uid: c.image.uid, Gid: security.GetRunAsGroup().GetValue(), SupplementalGroups: slices.Clone(security.GetSupplementalGroups()),
	}
	if security.GetRunAsUser() != nil {
		user.Uid = security.GetRunAsUser().GetValue()
	}
	return user
}

func listedSandboxes(sandboxes []*sandbox) []*runtimeapi.PodSandbox {
	out := make([]*runtimeapi.PodSandbox, len(sandboxes))
	for i, b := range sandboxes {
		out[i] = &runtimeapi.PodSandbox{
			Id: b.id, Metadata: b.name.metadata(), State: b.readiness(), CreatedAt: b.createdAt,
			Labels: b.config.Labels, Annotations: b.config.Annotations, RuntimeHandler: b.handler,
		}
	}
	return out
}

func (b *sandbox) status() *runtimeapi.PodSandboxStatus { return b.statusAs(b.sandboxState) }

// statusAs returns the status of b with a recorded state. Without addresses, as on the host's
// network, it has an empty network.
func (b *sandbox) statusAs(was sandboxState) *runtimeapi.PodSandboxStatus {
	network := &runtimeapi.PodSandboxNetworkStatus{}
	for i, ip := range was.ips {
		if i == 0 {
			network.Ip = ip
			continue
		}
		network.AdditionalIps = append(network.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
	}
	options := &runtimeapi.NamespaceOption{}
	proto.Merge(options, b.config.GetLinux().GetSecurityContext().GetNamespaceOptions())
	return &runtimeapi.PodSandboxStatus{
		Id: b.id, Metadata: b.name.metadata(), State: was.readiness(), CreatedAt: b.createdAt, Network: network,
		Linux:  &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: options}},
		Labels: b.config.Labels, Annotations: b.config.Annotations, RuntimeHandler: b.handler,
	}
}

// seen is a container with a recorded state.
type seen struct {
	container *container
	was       containerState
}

// seen records the states of the sandbox's containers, oldest first.
func (b *sandbox) seen() []seen {
	out := make([]seen, 0, b.containers.len)
	for c := range b.containers.all() {
		out = append(out, seen{c, c.containerState})
	}
	return out
}

func statuses(of []seen) []*runtimeapi.ContainerStatus {
	out := make([]*runtimeapi.ContainerStatus, len(of))
	for i := range of {
		out[i] = of[i].container.statusAs(&of[i].was)
	}
	return out
}

func (c *container) process(args []string) Process {
	return Process{
		Container: ContainerIdentity{
			ID: c.id, Name: c.name.name, Attempt: c.name.attempt, Image: requestedImage(c.config.GetImage()),
		},
		Pod:    c.sandbox.identity(),
		Args:   args,
		Env:    slices.Clone(c.env),
		Dir:    c.config.GetWorkingDir(),
		Mounts: mountsOf(c.config.GetMounts()),
		Stdin:  NoInput{},
	}
}

// requestedImage returns an image as the pod names it. The runtime gets its ID or digest instead.
func requestedImage(i *runtimeapi.ImageSpec) string {
	return cmp.Or(i.GetUserSpecifiedImage(), i.GetImage())
}
