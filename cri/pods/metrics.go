package pods

import "time"

// ContainerKind says which list of a pod's spec a container is in.
type ContainerKind string

// The kinds of containers, by the names that metrics give them.
const (
	KindRegular   ContainerKind = "container"
	KindInit      ContainerKind = "init_container"
	KindEphemeral ContainerKind = "ephemeral_container"
)

// Metrics are callbacks for counters and histograms. Each may be nil. They are
// called from the goroutine of the sync and must not block. What was called off is
// not counted.
type Metrics struct {
	// OnSandboxStart is called after each try to make a sandbox, with the handler
	// of its RuntimeClass ("" for the default) and how long the runtime took.
	OnSandboxStart func(handler string, took time.Duration, err error)
	// OnUsersStart is called after each sync that has tried to make a sandbox for a pod with
	// users of its own (hostUsers: false), with what failed in it.
	OnUsersStart func(err error)
	// OnImagesMount is called when a container was started that mounts images, with their
	// number, and with failed when it was not since the runtime could not mount them.
	OnImagesMount func(volumes int, failed bool)
	// OnContainerStart is called after each try to start a container that was not
	// held back, with "" or the waiting reason of the failure.
	OnContainerStart func(kind ContainerKind, reason string)
	// OnResize is called after each try to resize a pod in place.
	OnResize func(took time.Duration, err error)
}
