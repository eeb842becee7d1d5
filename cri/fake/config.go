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

// Config configures a runtime. The zero value has every call of containerd 2, no images but a
// registry with every image, and containers that sleep until they are stopped.
type Config struct {
	// Name is the runtime's name and the prefix of container IDs ("fake://..."). Default: "fake".
	Name string
	// RuntimeVersion is the runtime's own version. Default: "v1.0.0".
	RuntimeVersion string

	// Programs selects the program of a container. Default: SleepUntilStopped.
	Programs Resolver
	// Exec selects the program of ExecSync and exec sessions. Default: a program that exits with 0
	// at once.
	Exec Resolver
	// Streams serves exec, attach and port-forward sessions; see package cri/streams. Optional:
	// without it Exec, Attach and PortForward are Unimplemented.
	Streams StreamServer
	// Ports connects port-forward sessions: it returns a connection to a port of a pod, such as one
	// end of a net.Pipe. The session closes the connection. The context belongs to the session.
	// Optional: without it every connection is refused.
	Ports func(ctx context.Context, pod PodIdentity, port int) (net.Conn, error)

	// AnyImage makes every image name present. Images and Pull still describe their images.
	// Default: false.
	AnyImage bool
	// Images are present from the start. Default: none.
	Images []Image
	// Pull pulls images, also for names that are present. It may block until ctx is done. Default:
	// pulls any name at once. See Registry.
	Pull Puller
	// ImageFilesystem is the mount point in ImageFsInfo. Callers may look up its real capacity.
	// Default: "/".
	ImageFilesystem string
	// ContainerFilesystem is the mount point of the containers' writable layers. A value different
	// from ImageFilesystem is a split filesystem (KEP-4191). Default: ImageFilesystem.
	ContainerFilesystem string

	// FixedIPs are the addresses of every sandbox, such as the host's. Default: each sandbox gets
	// an address of 10.88.0.0/16, or of the pod CIDRs in the last UpdateRuntimeConfig.
	FixedIPs []string
	// Handlers are the RuntimeClass handlers besides the default "". Default: none.
	Handlers []string

	// Unimplemented lists calls that fail with Unimplemented, such as "GetContainerEvents" and
	// "RuntimeConfig", which containerd 1.6 lacks, or, over gRPC, "StreamContainers". Default:
	// none.
	Unimplemented []string
	// Checkpoints makes CheckpointContainer write an archive, as on a node with CRIU. Default:
	// false, it fails.
	Checkpoints bool
	// CgroupDriver is the driver in RuntimeConfig, "cgroupfs" or "systemd". Default: "cgroupfs".
	CgroupDriver string

	// OpenLog opens a container's log for appending. It is called at the start of a container whose
	// sandbox has a log_directory and whose config has a log_path, and by ReopenContainerLog. path
	// is the joined path. A nil writer drops the log. Default: opens a file and makes its
	// directory.
	OpenLog func(path string) (io.WriteCloser, error)

	// ClockSkew is the initial offset of the runtime's clock from the clock of this process;
	// negative is behind. See SetClockSkew. Default: 0.
	ClockSkew time.Duration

	// Intercept is called before each call with the call's name ("CreateContainer") and its CRI
	// request, here a *runtimeapi.CreateContainerRequest. It is called concurrently and may block
	// until ctx is done. An error becomes the result of the call, which then has no effect; a
	// status error keeps its code. It must not change the request. See Rules. Optional.
	Intercept func(ctx context.Context, call string, request any) error

	// Logger receives messages about programs. Default: discards them.
	Logger *slog.Logger
}

type Image struct {
	// Name is the image's reference, such as "busybox:1.36". It is completed as in runtimes:
	// "busybox" becomes "docker.io/library/busybox:latest", and either name finds it. Required.
	Name string
	// ID is the image's ID, "sha256:<64 hex>". Two names with one ID are one image. Default:
	// derived from the name.
	ID string
	// Digest is the manifest's digest, "sha256:<64 hex>", for the repository digest. Default:
	// derived from the ID.
	Digest string
	// Size is the image's size in bytes. Default: 1 MiB.
	Size uint64
	// UID and Username are the user in the image's configuration; at most one is set. Default:
	// root, with neither set.
	UID      *int64
	Username string
	// Pinned protects the image from garbage collection. Default: false.
	Pinned bool
}

// A Puller implements PullImage. The returned image is present from then on; a zero Image stands
// for an image with the requested name. auth is nil for an anonymous pull. It is called
// concurrently and must return when ctx is done. A plain error gets code Unknown; a status error
// keeps its code.
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
			f.Refuse("Unimplemented: unknown call %q", name)
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
