package logs

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/loglimit"
	"github.com/podwright/podwright/internal/run"
)

const minRotatePeriod = 3 * time.Second

// RotatorRuntime is what a Rotator needs of a runtime. Every cri.RuntimeService
// is one.
type RotatorRuntime interface {
	cri.ContainerReader
	cri.LogReopener
}

// RotatorConfig configures a Rotator.
type RotatorConfig struct {
	// Runtime has the containers. Required.
	Runtime RotatorRuntime
	// MaxSize is the size in bytes from which a log is rotated, the
	// containerLogMaxSize of a kubelet. Zero means 10 MiB; negative: no log is
	// ever rotated.
	MaxSize int64
	// MaxFiles is how many files a container instance's log may have, the one
	// that is written to included; at least 2. Zero means 5.
	MaxFiles int
	// Period is the time between two looks at all logs, at least 3s. Zero means
	// 10s.
	Period time.Duration
	// Workers is how many logs are rotated at a time. Zero means 1.
	Workers int
	// OnRotate, if not nil, is called after each attempt to rotate a log, by up
	// to Workers goroutines at a time. It must not block.
	OnRotate func(Rotation)
	// Logger gets what goes wrong, the same at most once a minute. nil:
	// discarded.
	Logger *slog.Logger
}

// Rotation is one attempt to rotate a log.
type Rotation struct {
	ContainerID string
	// Path is the log's, Rotated what it was renamed to; "" if it keeps its
	// name.
	Path, Rotated string
	// Size is how large it was, in bytes.
	Size int64
	// Err is what went wrong, with Rotated or without: an old file that could
	// not be compressed, or a runtime that did not reopen the log.
	Err error
}

// ErrAlreadyRun is returned by a second Run.
var ErrAlreadyRun = fields.AlreadyRun("logs")

// Rotator rotates the logs of running containers that have grown too large. It
// keeps what it needs in the names of the files, so that another rotator, also
// that of an upstream kubelet, can go on at any point at which it was killed.
type Rotator struct {
	cfg     RotatorConfig
	ran     atomic.Bool
	limiter *loglimit.Limiter

	known map[string]*rotating // by container ID; of the goroutine that runs round
}

// NewRotator returns a rotator. The error names the field that cannot be.
func NewRotator(cfg RotatorConfig) (*Rotator, error) {
	f := fields.Of("logs: RotatorConfig")
	f.Required("Runtime", cfg.Runtime)
	fields.Default(&cfg.MaxSize, 10<<20)
	fields.Default(&cfg.MaxFiles, 5)
	fields.Default(&cfg.Period, 10*time.Second)
	fields.Number(f, "Workers", &cfg.Workers, 1)
	fields.Logger(&cfg.Logger)
	if cfg.MaxFiles < 2 {
		f.Refuse("MaxFiles is not above 1: %d", cfg.MaxFiles)
	}
	if cfg.Period < minRotatePeriod {
		f.Refuse("Period is below %v: %v", minRotatePeriod, cfg.Period)
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Rotator{cfg: cfg, limiter: loglimit.New(time.Minute), known: map[string]*rotating{}}, nil
}

// Run looks at all logs at once and then every Period, until ctx ends. It returns
// nil when nothing of it runs any more, or an error after ten seconds in which the
// runtime or OnRotate did not return. A rotation that ctx cuts short is completed
// or taken back. A second Run returns ErrAlreadyRun.
func (r *Rotator) Run(ctx context.Context) error {
	if r.ran.Swap(true) {
		return ErrAlreadyRun
	}
	if r.cfg.MaxSize < 0 {
		<-ctx.Done()
		return nil
	}
	var group run.Group
	group.Go("rounds", func() {
		for {
			r.round(ctx)
			if !run.Sleep(ctx, r.cfg.Period) {
				return
			}
		}
	})
	<-ctx.Done()
	if running := group.Wait(shutdownTimeout); running != nil {
		return fmt.Errorf("logs: Rotator: Runtime or OnRotate has ignored the end of its context for %v", shutdownTimeout)
	}
	return nil
}

// round looks at the logs of all containers that run.
func (r *Rotator) round(ctx context.Context) {
	list, err := r.cfg.Runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	})
	if err != nil {
		r.warn(ctx, "", fmt.Errorf("listing containers: %w", err))
		return
	}
	known := make(map[string]*rotating, len(list))
	for _, c := range list {
		if c.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue // runtimes may ignore the filter
		}
		k := r.known[c.GetId()]
		if k == nil {
			k = &rotating{Rotator: r, id: c.GetId()}
		}
		known[k.id] = k
	}
	r.known = known
	r.each(ctx, known)
}

// each has the workers look at the containers.
func (r *Rotator) each(ctx context.Context, known map[string]*rotating) {
	work := make(chan *rotating)
	var workers sync.WaitGroup
	for range min(r.cfg.Workers, len(known)) {
		workers.Go(func() {
			for k := range work {
				if err := k.look(ctx); err != nil {
					r.warn(ctx, k.id, err)
				}
			}
		})
	}
	for _, k := range known {
		if ctx.Err() != nil {
			break
		}
		work <- k
	}
	close(work)
	workers.Wait()
}

func (r *Rotator) warn(ctx context.Context, id string, err error) {
	if ctx.Err() == nil && r.limiter.Allow(time.Now(), id, err.Error()) {
		r.cfg.Logger.Warn("log rotation", "container", id, "err", err)
	}
}
