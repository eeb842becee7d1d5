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

// Config configures a Manager. Only Service is required.
type Config struct {
	// Service looks up and pulls images. Required.
	Service cri.ImageService
	// MaxParallelPulls is how many pulls run at a time. Zero and one mean one
	// after the other; a negative value means no limit. The others wait in a queue
	// without bound: it is never longer than there are pods.
	MaxParallelPulls int
	// QPS is how many pulls per second may begin in the long run; zero means 5,
	// a negative value means no limit. A pull beyond it fails at once.
	QPS float64
	// Burst is how many pulls may begin at once; zero means 10.
	Burst int
	// Credentials finds what to authenticate with: it is tried in turn until
	// one works. It is asked at most once per Ensure, before the pull or when it
	// matters who may use an image that is there, and with the repository
	// alone. Its error is told if the pull fails, and does not fail it. nil, or
	// an empty answer: an anonymous pull.
	Credentials credentials.Source
	// Records remember who pulled what, so that a pod can use a private image
	// that is on the node only if it may pull it. nil: every pod can use every
	// image that is on the node.
	Records *records.Store
	// Event records Kubernetes events on the container, or on the pod for a
	// volume: Pulling, Pulled, Failed, BackOff, InspectFailed,
	// ErrImageNeverPull. nil records none.
	Event podwright.EventFunc
	// Metrics are optional callbacks.
	Metrics Metrics
	// Span is called before each wait of a container for a pull ("Images/Pull", with the image, the
	// pod as k8s.pod and k8s.pod.uid), and end when it is over, with its error. The context that
	// it returns is that of the wait, and of the pull if the container is the first who wants it.
	// nil: nobody is called.
	Span func(ctx context.Context, name string, attributes ...slog.Attr) (_ context.Context, end func(err error))
	// Logger gets one debug line per failed pull, which its event and error tell, too;
	// nil discards.
	Logger *slog.Logger
}

// Metrics are callbacks for counters and histograms. Each may be nil. They must not
// block.
type Metrics struct {
	// OnRequest is called once the presence of an image is known and its pull
	// decided upon.
	OnRequest func(policy v1.PullPolicy, present, pull bool)
	// OnPull is called after each pull that was not called off, once for all who
	// waited for it, with the size of the image in bytes when it succeeded and
	// is known.
	OnPull func(image string, took time.Duration, size uint64, err error)
	// OnWait is called for each pod whose image was to be pulled, when it does not
	// wait for it any more, however that ended.
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
