package fake

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/fields"
)

// Config says what the runtime is like. The zero value is a runtime with every
// call of containerd 2, no image present but every image there to be pulled, and
// containers that sleep until they are stopped.
type Config struct {
	// Name is the runtime's name, the prefix of container IDs ("fake://...").
	// Default "fake".
	Name string
	// RuntimeVersion is the runtime's own version. Default "v1.0.0".
	RuntimeVersion string

	// Programs chooses what a container runs. nil: SleepUntilStopped.
	Programs Resolver
	// Exec chooses what ExecSync and exec sessions run. nil: a program that
	// exits with 0 at once.
	Exec Resolver
	// Streams serves exec, attach and port-forward sessions: see package
	// cri/streams. nil: Exec, Attach and PortForward are Unimplemented.
	Streams StreamServer
	// Ports connects port-forward sessions: it returns a connection to what
	// listens on a port of a pod, such as one end of a net.Pipe, and the
	// session closes it. The context is that of the session. nil: every
	// connection is refused.
	Ports func(ctx context.Context, pod PodIdentity, port int) (net.Conn, error)

	// AnyImage makes every image name count as present. Images and Pull still
	// describe the images that they name. Default false.
	AnyImage bool
	// Images are present from the start. Default none.
	Images []Image
	// Pull answers PullImage for names that are not present, and for those
	// that are. It may take its time, until ctx is done. nil: every name can
	// be pulled, at once. See Registry.
	Pull Puller
	// ImageFilesystem is the mount point that ImageFsInfo names, and the
	// directory whose real capacity a caller may look up. Default "/".
	ImageFilesystem string
	// ContainerFilesystem is the same for what containers write. Default:
	// ImageFilesystem; another one is a split file system (KEP-4191).
	ContainerFilesystem string

	// FixedIPs, when set, are the addresses of every sandbox, such as the
	// host's. Default: each sandbox has an address of 10.88.0.0/16, or of the pod
	// CIDRs of the last UpdateRuntimeConfig.
	FixedIPs []string
	// Handlers are the RuntimeClass handlers that the runtime knows besides
	// the default "". Default none.
	Handlers []string

	// Unimplemented names calls that answer Unimplemented, such as
	// "GetContainerEvents" and "RuntimeConfig", which containerd 1.6 lacks, or,
	// over gRPC, "StreamContainers". Default none.
	Unimplemented []string
	// Checkpoints makes CheckpointContainer write an archive, as on a node that
	// has CRIU. Default false: it fails as without.
	Checkpoints bool
	// CgroupDriver is what RuntimeConfig answers, "cgroupfs" or "systemd".
	// Default "cgroupfs".
	CgroupDriver string

	// OpenLog opens a container's log for appending. It is asked when a
	// container starts whose sandbox has a log_directory and whose config has
	// a log_path, and again by ReopenContainerLog; path is the two joined.
	// A nil writer drops the log. nil: a file; its directory is made.
	OpenLog func(path string) (io.WriteCloser, error)

	// ClockSkew is how far the runtime's clock is ahead of the clock of this
	// process; negative: behind. See SetClockSkew, which changes it. Default 0.
	ClockSkew time.Duration

	// Intercept is called before each call with the call's name ("CreateContainer")
	// and its CRI request, a *runtimeapi.CreateContainerRequest there. It may
	// block until ctx is done. An error is the result of the call, which then
	// has no effect; a status error keeps its code. It must not change the
	// request. See Rules. Default: no function.
	Intercept func(ctx context.Context, call string, request any) error

	// Logger gets what happens to programs. nil: discarded.
	Logger *slog.Logger
}

// An Image describes an image.
type Image struct {
	// Name is the reference under which it is known, such as "busybox:1.36". It
	// is completed as runtimes do: "busybox" is known as
	// "docker.io/library/busybox:latest", and found by either. Required.
	Name string
	// ID is the image's ID, "sha256:<64 hex>". Two names with one ID are one
	// image. Default: derived from the name.
	ID string
	// Digest is the manifest's digest, "sha256:<64 hex>", for the repository
	// digest. Default: derived from the ID.
	Digest string
	// Size is its size in bytes. Default 1 MiB.
	Size uint64
	// UID and Username are the user its configuration names; at most one is
	// set. Default: root, given as neither.
	UID      *int64
	Username string
	// Pinned protects it from garbage collection. Default false.
	Pinned bool
}

// A Puller answers PullImage. What it returns is present from then on; a zero
// Image stands for one of the name that was asked for. auth is nil for an
// anonymous pull. It must return when ctx ends. A
// plain error arrives with code Unknown, a status error as it is.
type Puller func(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig) (Image, error)

func (c *Config) complete() error {
	fields.Default(&c.Name, "fake")
	fields.Default(&c.RuntimeVersion, "v1.0.0")
	fields.Default(&c.ImageFilesystem, "/")
	fields.Default(&c.ContainerFilesystem, c.ImageFilesystem)
	fields.Default(&c.CgroupDriver, "cgroupfs")
	fields.Default(&c.Programs, Always(SleepUntilStopped))
	fields.Default(&c.Exec, Always(Exit(0)))
	fields.Default(&c.Pull, pullAnything)
	fields.Default(&c.OpenLog, openLogFile)
	fields.Logger(&c.Logger)
	f := fields.Of("fake: Config")
	for _, name := range c.Unimplemented {
		if callInput(name) == nil {
			f.Refuse("Unimplemented: there is no call %q", name)
		}
	}
	if _, ok := cgroupDriver(c.CgroupDriver); !ok {
		f.Refuse("CgroupDriver %q is neither cgroupfs nor systemd", c.CgroupDriver)
	}
	for _, ip := range c.FixedIPs {
		if _, err := netip.ParseAddr(ip); err != nil {
			f.Refuse("FixedIPs: %w", err)
		}
	}
	for i, image := range c.Images {
		if err := validateImage(image); err != nil {
			f.Refuse("Images[%d]: %w", i, err)
		}
	}
	return f.Err()
}
