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

// RotatorRuntime is the part of a runtime that a Rotator uses. Every cri.RuntimeService implements
// it.
type RotatorRuntime interface {
	cri.ContainerReader
	cri.LogReopener
}

// RotatorConfig configures a Rotator.
type RotatorConfig struct {
	// Runtime is the runtime of the containers. Required.
	Runtime RotatorRuntime
	// Owner owns the containers. Logs of other owners are not rotated. Required.
	Owner cri.Owner
	// MaxSize is the size in bytes at which a log is rotated, the kubelet's containerLogMaxSize.
	// Default: 10 MiB. A negative value disables rotation.
	MaxSize int64
	// MaxFiles is the maximum number of files of a container instance's log, including the current
	// one; at least 2. Default: 5.
	MaxFiles int
	// Period is the interval between checks of all logs, at least 3 s. Default: 10 s.
	Period time.Duration
	// Workers is the number of concurrent rotations. Default: 1.
	Workers int
	// OnRotate is called after each attempt to rotate a log, by up to Workers goroutines
	// concurrently. It must not block. Optional.
	OnRotate func(Rotation)
	// Logger receives errors, the same one at most once a minute. Nil discards.
	Logger *slog.Logger
}

// Rotation is one attempt to rotate a log.
type Rotation struct {
	ContainerID string
	// Path is the log's path. Rotated is its new name, or "" if the log keeps its name.
	Path, Rotated string
	// Size is the log's size before, in bytes.
	Size int64
	// Err is the error of the attempt, with or without Rotated, such as an old file that could not
	// be compressed, or a runtime that did not reopen the log.
	Err error
}

// ErrAlreadyRun is returned by a second Run.
var ErrAlreadyRun = fields.AlreadyRun("logs")

// Rotator rotates the logs of running containers that are too large, in Run. Its state is in the
// names of the files, so that another rotator, or an upstream kubelet, can continue after a crash
// at any point.
type Rotator struct {
	cfg     RotatorConfig
	ran     atomic.Bool
	limiter *loglimit.Limiter

	known map[string]*rotating // by container ID; used only by the goroutine that runs round
}

// NewRotator returns a Rotator. The error contains the names of invalid fields.
func NewRotator(cfg RotatorConfig) (*Rotator, error) {
	f := fields.Of("logs: RotatorConfig")
	f.Required("Runtime", cfg.Runtime)
	f.Checked(cfg.Owner.Check())
	fields.Default(&cfg.MaxSize, 10<<20)
	fields.Default(&cfg.MaxFiles, 5)
	fields.Default(&cfg.Period, 10*time.Second)
	fields.Number(f, "Workers", &cfg.Workers, 1)
	fields.Logger(&cfg.Logger)
	if cfg.MaxFiles < 2 {
		f.Refuse("MaxFiles must be at least 2: %d", cfg.MaxFiles)
	}
	if cfg.Period < minRotatePeriod {
		f.Refuse("Period is below %v: %v", minRotatePeriod, cfg.Period)
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Rotator{cfg: cfg, limiter: loglimit.New(time.Minute), known: map[string]*rotating{}}, nil
}

// Run checks all logs at once and then every Period, until ctx ends. It returns nil after its
// goroutines have ended, or an error if Runtime or OnRotate has not returned within 10 s. A
// rotation that ctx interrupts is completed or reverted. A second Run returns ErrAlreadyRun.
func (r *Rotator) Run(ctx context.Context) error {
	if r.ran.Swap(true) {
		return ErrAlreadyRun
	}
	if r.cfg.MaxSize < 0 {
		<-ctx.Done()
		return nil
	}
	var group run.Group
	group.Go("Runtime or OnRotate", func() {
		for {
			r.round(ctx)
			if !run.Sleep(ctx, r.cfg.Period) {
				return
			}
		}
	})
	<-ctx.Done()
	return run.StillRunning("logs: Rotator", shutdownTimeout, group.Wait(shutdownTimeout))
}

func (r *Rotator) round(ctx context.Context) {
	list, err := r.cfg.Runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	})
	if err != nil {
		r.warn(ctx, "", fmt.Errorf("list containers: %w", err))
		return
	}
	known := make(map[string]*rotating, len(list))
	for _, c := range r.cfg.Owner.Containers(list) {
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

func (r *Rotator) each(ctx context.Context, known map[string]*rotating) {
	work := make(chan *rotating)
	var workers sync.WaitGroup
	for range min(r.cfg.Workers, len(known)) {
		workers.Go(func() {
			for k := range work {
				if err := k.check(ctx); err != nil {
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
		r.cfg.Logger.Warn("log rotation failed", "container", id, "err", err)
	}
}
