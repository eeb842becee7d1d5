package images

import (
	"context"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/images/credentials"
	"github.com/podwright/podwright/cri/images/records"
	"github.com/podwright/podwright/internal/fields"
)

// Config configures a Manager.
type Config struct {
	// Service inspects and pulls images. A PullImage that ignores the end of its context occupies
	// its place among the parallel pulls for 5 s. Required.
	Service cri.ImageService
	// MaxParallelPulls bounds the concurrent pulls. Default: 1. A negative value means no limit.
	// Further pulls wait in a queue, which is unbounded but never longer than the number of pods.
	MaxParallelPulls int
	// QPS is the long-term rate at which pulls may begin, per second. Default: 5. A negative value
	// means no limit. A pull beyond the rate fails at once with ErrThrottled, and counts for the
	// back-off.
	QPS float64
	// Burst is the number of pulls that may begin at once. Default: 10.
	Burst int
	// Credentials finds the credentials of a pod. A pull tries them in order until one works. It
	// is called at most once per Ensure, before the pull or to verify access to a present image,
	// with the repository only. Its error does not fail the pull, but is part of the error of a
	// failed pull. Nil, or a result without credentials: an anonymous pull.
	Credentials credentials.Source
	// Records store the credentials of earlier pulls, so that a pod can use a present private
	// image only if it could pull it. Nil: every pod can use every present image.
	Records *records.Store
	// Event records Kubernetes events on the container, or on the pod for a volume: Pulling,
	// Pulled, Failed, BackOff, InspectFailed, ErrImageNeverPull. Nil records none.
	Event   podwright.EventFunc
	Metrics Metrics
	// Span is called before a container waits for a pull ("Images/Pull", with the image, the pod
	// as k8s.pod and k8s.pod.uid). end is called when the wait ends, with its error. The returned
	// context is used for the wait, and for the pull if this container is the first to request it.
	// Optional.
	Span func(ctx context.Context, name string, attributes ...slog.Attr) (_ context.Context, end func(err error))
	// Logger receives one debug line per failed pull, whose text is also in the event and the
	// error. Nil discards.
	Logger *slog.Logger
}

// Metrics are callbacks for counters and histograms. Each is optional. They must not block.
type Metrics struct {
	// OnRequest is called after the image was inspected and the pull decided.
	OnRequest func(policy v1.PullPolicy, present, pull bool)
	// OnPull is called after each pull that was not cancelled, once for all waiting requests. size
	// is the image's size in bytes if the pull succeeded and the size is available, else 0.
	OnPull func(image string, took time.Duration, size uint64, err error)
	// OnWait is called for each pod whose image had to be pulled, at the end of its wait, also
	// after a failure.
	OnWait func(pod types.UID, from, to time.Time)
}

func (c *Config) complete() error {
	f := fields.Of("images: Config")
	f.Required("Service", c.Service)
	fields.Number(f, "Burst", &c.Burst, 10)
	fields.Default(&c.MaxParallelPulls, 1)
	fields.Default(&c.QPS, 5)
	fields.Default(&c.Event, func(v1.ObjectReference, string, string, string) {})
	fields.Default(&c.Metrics.OnRequest, func(v1.PullPolicy, bool, bool) {})
	fields.Default(&c.Metrics.OnPull, func(string, time.Duration, uint64, error) {})
	fields.Default(&c.Metrics.OnWait, func(types.UID, time.Time, time.Time) {})
	fields.Logger(&c.Logger)
	return f.Err()
}
