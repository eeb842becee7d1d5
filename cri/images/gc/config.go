package gc

import (
	"context"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/fields"
)

// The reasons of the events that a Manager records on the node.
const (
	EventInvalidDiskCapacity = "InvalidDiskCapacity"
	EventFreeDiskSpaceFailed = "FreeDiskSpaceFailed"
	EventImageGCFailed       = "ImageGCFailed"
)

// Policy says when images are removed.
type Policy struct {
	// HighPercent is how full the disk is when images are removed, LowPercent how
	// full it is left, in percent. Both zero mean 85 and 80. High at 100 never
	// removes an image for its space. Low must be less than High.
	HighPercent, LowPercent int
	// MinAge is how long an image is kept after it was first seen, whatever
	// happens; zero means 2 minutes.
	MinAge time.Duration
	// MaxAge is for how long an image may be unused; it must be longer than MinAge.
	// Zero: for ever.
	MaxAge time.Duration
}

// Images is what the Manager needs of the runtime's images; a cri.ImageService is
// one.
type Images interface {
	ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error)
	RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error
	ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)
}

// Containers lists containers; a cri.RuntimeService is one. One that has Mounts or
// Configured, too, is asked about those.
type Containers interface {
	ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
}

// Config configures a Manager. Images and Containers are required.
type Config struct {
	// Images lists and removes images. Required.
	Images Images
	// Containers tells which images have containers. Required.
	Containers Containers
	// Policy says when images are removed.
	Policy Policy
	// CollectInterval is how often images are removed if need be; zero means 5
	// minutes.
	CollectInterval time.Duration
	// InUse names further images in use: by ID, tag or repository digest. Those
	// whose containers are about to be created belong here, and those of image
	// volumes of pods that may get another container. After an error nothing is
	// removed. nil: none.
	InUse func(ctx context.Context) ([]string, error)
	// Keep names images that are never removed, by ID, tag or repository digest. The
	// sandbox image belongs here only where the runtime neither pins it nor tells it
	// (see Configured). Default none.
	Keep []string
	// Disk measures the file system of the images. nil: the one of the mount
	// point that the runtime's ImageFsInfo names, which must be on this machine.
	Disk func(ctx context.Context) (Disk, error)
	// OnList is called after each look and each collection, and so for the first
	// time when Run begins, with the images that are left and when they were listed;
	// records.Store.Tidy is made for it. Its error is part of theirs. nil: nobody is
	// told.
	OnList func(images []*runtimeapi.Image, listed time.Time) error
	// Node is what events are recorded on.
	Node v1.ObjectReference
	// Event records Kubernetes events: InvalidDiskCapacity, FreeDiskSpaceFailed,
	// and ImageGCFailed from the second failure in a row. nil records none.
	Event podwright.EventFunc
	// Span is called before each collection of Run ("Images/GarbageCollect"), which goes on with the
	// context that it returns, and end after it, with its error. nil: nobody is called.
	Span func(ctx context.Context, name string, attributes ...slog.Attr) (_ context.Context, end func(err error))
	// OnRemove is called for each image that was removed. It must not block. nil:
	// nobody is told.
	OnRemove func(image Image, reason Reason)
	// Logger gets an info line per image that is removed and an error line per
	// failed collection. nil discards.
	Logger *slog.Logger
}

func (p *Policy) complete(f *fields.Check) {
	if p.HighPercent == 0 && p.LowPercent == 0 {
		p.HighPercent, p.LowPercent = 85, 80
	}
	fields.Number(f, "Policy.MinAge", &p.MinAge, 2*time.Minute)
	fields.Number(f, "Policy.MaxAge", &p.MaxAge, 0)
	switch {
	case p.HighPercent < 0 || p.HighPercent > 100:
		f.Refuse("Policy.HighPercent is not between 0 and 100: %d", p.HighPercent)
	case p.LowPercent < 0 || p.LowPercent > 100:
		f.Refuse("Policy.LowPercent is not between 0 and 100: %d", p.LowPercent)
	case p.LowPercent >= p.HighPercent:
		f.Refuse("Policy.LowPercent %d is not less than HighPercent %d", p.LowPercent, p.HighPercent)
	case p.MaxAge > 0 && p.MaxAge <= p.MinAge:
		f.Refuse("Policy.MaxAge %s is not longer than MinAge %s", p.MaxAge, p.MinAge)
	}
}

func (c *Config) complete() error {
	f := fields.Of("gc: Config")
	f.Required("Images", c.Images)
	f.Required("Containers", c.Containers)
	fields.Number(f, "CollectInterval", &c.CollectInterval, 5*time.Minute)
	c.Policy.complete(f)
	fields.Default(&c.InUse, func(context.Context) ([]string, error) { return nil, nil })
	fields.Default(&c.Disk, diskOf(c.Images))
	fields.Default(&c.OnList, func([]*runtimeapi.Image, time.Time) error { return nil })
	fields.Default(&c.Event, func(v1.ObjectReference, string, string, string) {})
	fields.Default(&c.OnRemove, func(Image, Reason) {})
	fields.Logger(&c.Logger)
	return f.Err()
}

const (
	// detectInterval is the period of checks which images are in use.
	detectInterval = 5 * time.Minute
	// listLifetime is the largest age of the list that Manager.Images returns.
	listLifetime = 30 * time.Second
)
