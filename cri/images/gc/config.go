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

// The reasons of the events on the node.
const (
	eventInvalidDiskCapacity = "InvalidDiskCapacity"
	eventFreeDiskSpaceFailed = "FreeDiskSpaceFailed"
	eventImageGCFailed       = "ImageGCFailed"
)

// Policy defines when images are removed.
type Policy struct {
	// HighPercent is the disk usage at which removal starts, LowPercent the usage at which it
	// stops, in percent. Default: 85 and 80 if both are zero. With HighPercent 100 no image is
	// removed for its space. LowPercent must be less than HighPercent.
	HighPercent, LowPercent int
	// MinAge is the minimum time between an image's first detection and its removal. Default: 2 min.
	MinAge time.Duration
	// MaxAge is the time after which an unused image is removed. It must be longer than MinAge.
	// Zero: no limit.
	MaxAge time.Duration
}

// Images is the part of an image service that the Manager uses. A cri.ImageService implements it.
type Images interface {
	ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error)
	RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error
	ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)
}

// Containers lists containers. A cri.RuntimeService implements it. If it also implements Mounts or
// Configured, the Manager uses these.
type Containers interface {
	ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
}

// Config configures a Manager.
type Config struct {
	// Images lists and removes images. Required.
	Images Images
	// Containers lists the containers, whose images are in use. Required.
	Containers Containers
	// Policy defines when images are removed.
	Policy Policy
	// CollectInterval is the period of image garbage collection. Default: 5 min.
	CollectInterval time.Duration
	// InUse returns further images in use: by ID, tag or repository digest. They should include
	// images whose containers are about to be created, and images of image volumes of pods that
	// may get another container. After an error no image is removed. Nil: none.
	InUse func(ctx context.Context) ([]string, error)
	// Keep are images that are never removed, by ID, tag or repository digest. The sandbox image
	// is needed here only if the runtime neither pins nor reports it (see Configured). Default:
	// none.
	Keep []string
	// Disk measures the filesystem of the images. Nil: the filesystem at the mount point in the
	// runtime's ImageFsInfo, which must be on this machine.
	Disk func(ctx context.Context) (Disk, error)
	// OnList is called after each detection and each collection, first at the start of Run, with
	// the remaining images and the time of their listing. It suits records.Store.Tidy. Its error
	// is part of theirs. Optional.
	OnList func(images []*runtimeapi.Image, listed time.Time) error
	// Node is the object of events.
	Node v1.ObjectReference
	// Event records Kubernetes events: InvalidDiskCapacity, FreeDiskSpaceFailed, and ImageGCFailed
	// from the second failure in a row. Nil records none.
	Event podwright.EventFunc
	// Span is called before each collection of Run ("Images/GarbageCollect"), which uses the
	// returned context. end is called after it, with its error. Optional.
	Span func(ctx context.Context, name string, attributes ...slog.Attr) (_ context.Context, end func(err error))
	// OnRemove is called for each removed image. It must not block. Optional.
	OnRemove func(image Image, reason Reason)
	// Logger receives an info line per removed image and an error line per failed collection. Nil
	// discards.
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
	detectInterval = 5 * time.Minute
	// listLifetime is the maximum age of the list that Manager.Images returns.
	listLifetime = 30 * time.Second
)
