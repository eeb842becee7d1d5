package gc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/internal/span"
)

var (
	// ErrAlreadyRun is returned by a second Run.
	ErrAlreadyRun = fields.AlreadyRun("gc")
	// ErrShutdownTimeout is wrapped by the error of Run if a call did not return in time.
	ErrShutdownTimeout = run.ErrShutdownTimeout
)

// shutdownTimeout is the longest wait of an ending Run for a call.
const shutdownTimeout = 10 * time.Second

// Manager removes images. Create it with New. It is safe for concurrent use.
type Manager struct {
	cfg Config
	ran atomic.Bool

	work     chan struct{} // a semaphore for detection and removal
	seen     map[string]times
	started  time.Time
	failures int
	// mounted are the images that containers mount, by container ID.
	mounted map[string][]string

	mu     sync.Mutex
	list   []*runtimeapi.Image // sorted by size, the largest first
	listed time.Time
}

type times struct{ firstDetected, lastUsed time.Time }

// New returns a Manager. Errors contain the names of invalid fields.
func New(cfg Config) (*Manager, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return &Manager{cfg: cfg, work: make(chan struct{}, 1), seen: map[string]times{}}, nil
}

// Run detects the images in use at once and periodically, and collects, until ctx ends; it then
// returns nil, or an error that wraps ErrShutdownTimeout if a call has ignored the end of its
// context for 10 s. Failures are logged and retried. A second Run returns ErrAlreadyRun.
func (m *Manager) Run(ctx context.Context) error {
	if m.ran.Swap(true) {
		return ErrAlreadyRun
	}
	var group run.Group
	group.Go("detecting or removing images", func() { m.loop(ctx) })
	<-ctx.Done()
	return run.StillRunning("gc", shutdownTimeout, group.Wait(shutdownTimeout))
}

func (m *Manager) loop(ctx context.Context) {
	detect := time.NewTicker(detectInterval)
	defer detect.Stop()
	collect := time.NewTicker(m.cfg.CollectInterval)
	defer collect.Stop()
	m.try(ctx, "detecting used images failed", m.Detect)
	for {
		select {
		case <-ctx.Done():
			return
		case <-detect.C:
			m.try(ctx, "detecting used images failed", m.Detect)
		case <-collect.C:
			if m.cfg.Policy.HighPercent < 100 || m.cfg.Policy.MaxAge > 0 {
				m.try(ctx, "removing unused images failed", m.collectAndReport)
			}
		}
	}
}

func (m *Manager) try(ctx context.Context, what string, f func(context.Context) error) {
	if err := f(ctx); err != nil && ctx.Err() == nil {
		m.cfg.Logger.Error(what, "err", err)
	}
}

// Detect lists the images, records which are in use, and calls Config.OnList. Run calls it every
// five minutes. An image that no detection or collection found in use counts as unused.
func (m *Manager) Detect(ctx context.Context) error {
	leave, err := m.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	seen, err := m.observe(ctx)
	if err != nil {
		return err
	}
	return m.reportRemaining(seen, nil)
}

// enter waits until no other detection or removal is running.
func (m *Manager) enter(ctx context.Context) (leave func(), err error) {
	select {
	case m.work <- struct{}{}:
		return func() { <-m.work }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("gc: %w", ctx.Err())
	}
}

// observation is a list of images at one time.
type observation struct {
	images    []Image
	list      []*runtimeapi.Image // the same images as the runtime lists them
	requested time.Time           // time of the list request
}

// observe lists the images with their use. It fails if any use is unknown. It lists containers
// after images, so that a container created in between is seen.
func (m *Manager) observe(ctx context.Context) (observation, error) {
	out := observation{requested: time.Now()}
	var err error
	if out.list, err = m.cfg.Images.ListImages(ctx, nil); err != nil {
		return observation{}, fmt.Errorf("gc: listing images: %w", err)
	}
	used, err := m.inUse(ctx)
	if err != nil {
		return observation{}, err
	}
	out.images = m.note(out.list, used, time.Now())
	return out, nil
}

// note updates the detection times and drops removed images.
func (m *Manager) note(list []*runtimeapi.Image, used map[string]bool, now time.Time) []Image {
	first := now
	if m.started.IsZero() {
		m.started, first = now, time.Time{}
	}
	fresh := make(map[string]times, len(list))
	images := make([]Image, 0, len(list))
	for _, image := range list {
		t, known := m.seen[image.GetId()]
		if !known {
			t.firstDetected = first
		}
		inUse := anyOf(used, image)
		if inUse {
			t.lastUsed = now
		}
		fresh[image.GetId()] = t
		images = append(images, Image{
			ID: image.GetId(), Size: image.GetSize(), Pinned: image.GetPinned(), InUse: inUse,
			FirstDetected: t.firstDetected, LastUsed: t.lastUsed,
		})
	}
	m.seen = fresh
	return images
}

// collectAndReport is one collection of Run.
func (m *Manager) collectAndReport(ctx context.Context) error {
	collecting, end := span.Begin(ctx, m.cfg.Span, "Images/GarbageCollect")
	err := m.Collect(collecting)
	end(err)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		m.failures = 0
	default:
		if m.failures++; m.failures > 1 {
			m.cfg.Event(m.cfg.Node, v1.EventTypeWarning, eventImageGCFailed, err.Error())
		}
	}
	return err
}

// Collect removes images that exceed MaxAge and, if the disk is full, unused images. It returns an
// error if it could not free enough, if an image could not be removed (it continues with the next
// image), or if the disk could not be measured (it then removes by age only). It removes no image
// if the images in use are unknown.
func (m *Manager) Collect(ctx context.Context) error {
	leave, err := m.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	disk, diskErr := m.disk(ctx) // removal by age does not need the disk's size
	seen, err := m.observe(ctx)
	if err != nil {
		return errors.Join(err, diskErr)
	}
	plan := Compute(Input{Now: time.Now(), Started: m.started, Images: seen.images, Disk: disk, Policy: m.cfg.Policy})
	return errors.Join(diskErr, m.carryOut(ctx, plan, seen, disk))
}

// RemoveUnused removes every image that is not in use, not pinned, and older than Policy.MinAge.
// It returns the freed bytes. It is for a node under disk pressure.
func (m *Manager) RemoveUnused(ctx context.Context) (freed uint64, err error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	seen, err := m.observe(ctx)
	if err != nil {
		return 0, err
	}
	plan := Compute(Input{Now: time.Now(), Started: m.started, Images: seen.images, Policy: m.cfg.Policy})
	gone, freed, err := m.remove(ctx, slices.Concat(plan.Old, plan.Unused), ReasonSpace, everything)
	return freed, errors.Join(err, m.reportRemaining(seen, gone))
}

// disk measures the disk. It returns an error and records an event if the capacity is zero.
func (m *Manager) disk(ctx context.Context) (Disk, error) {
	d, err := m.cfg.Disk(ctx)
	if err != nil {
		return Disk{}, fmt.Errorf("gc: measuring the disk: %w", err)
	}
	if d.Capacity == 0 {
		message := "invalid capacity 0 on image filesystem"
		m.cfg.Event(m.cfg.Node, v1.EventTypeWarning, eventInvalidDiskCapacity, message)
		return Disk{}, errors.New("gc: " + message)
	}
	return d, nil
}

func (m *Manager) carryOut(ctx context.Context, plan Plan, seen observation, disk Disk) error {
	gone, freed, ageErr := m.remove(ctx, plan.Old, ReasonAge, everything)
	var spaceErr error
	if freed < plan.Free {
		more, found, err := m.remove(ctx, plan.Unused, ReasonSpace, plan.Free-freed)
		gone, freed, spaceErr = append(gone, more...), freed+found, err
	}
	if freed < plan.Free && ctx.Err() == nil {
		message := fmt.Sprintf("Insufficient free disk space on the node's image filesystem (%d%% of %s used). "+
			"Failed to free sufficient space by deleting unused images (freed %d bytes). "+
			"Investigate disk usage, as it could be used by active images, logs, volumes, or other data.",
			disk.UsedPercent(), sizeText(disk.Capacity), freed)
		m.cfg.Event(m.cfg.Node, v1.EventTypeWarning, eventFreeDiskSpaceFailed, message)
		spaceErr = errors.Join(spaceErr, errors.New("gc: "+message))
	}
	return errors.Join(ageErr, spaceErr, m.reportRemaining(seen, gone))
}

// remove removes images in order until enough bytes are freed. It skips images that cannot be
// removed.
func (m *Manager) remove(ctx context.Context, images []Image, reason Reason, enough uint64) (gone []string, freed uint64, err error) {
	var errs []error
	for _, image := range images {
		if freed >= enough {
			break
		}
		if err := ctx.Err(); err != nil {
			errs = append(errs, fmt.Errorf("gc: %w", err))
			break
		}
		if err := m.cfg.Images.RemoveImage(ctx, &runtimeapi.ImageSpec{Image: image.ID}); err != nil {
			errs = append(errs, fmt.Errorf("gc: removing image %s: %w", image.ID, err))
			continue
		}
		gone, freed = append(gone, image.ID), freed+image.Size
		delete(m.seen, image.ID)
		m.cfg.OnRemove(image, reason)
		m.cfg.Logger.Info("image removed", "image", image.ID, "reason", reason, "bytes", image.Size, "lastUsed", image.LastUsed)
	}
	return gone, freed, errors.Join(errs...)
}

func (m *Manager) reportRemaining(seen observation, gone []string) error {
	left := slices.DeleteFunc(slices.Clone(seen.list), func(i *runtimeapi.Image) bool { return slices.Contains(gone, i.GetId()) })
	if err := m.cfg.OnList(left, seen.requested); err != nil {
		return fmt.Errorf("gc: Config.OnList: %w", err)
	}
	return nil
}

// Images lists the images on the node, the largest first, for the node's status. The list is at
// most 30 s old and read-only.
func (m *Manager) Images(ctx context.Context) ([]*runtimeapi.Image, error) {
	if list, ok := m.recent(); ok {
		return list, nil
	}
	requested := time.Now()
	list, err := m.cfg.Images.ListImages(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("gc: listing images: %w", err)
	}
	slices.SortStableFunc(list, func(a, b *runtimeapi.Image) int { return cmp.Compare(b.GetSize(), a.GetSize()) })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list, m.listed = list, requested
	return list, nil
}

func (m *Manager) recent() ([]*runtimeapi.Image, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.list, !m.listed.IsZero() && time.Since(m.listed) < listLifetime
}
