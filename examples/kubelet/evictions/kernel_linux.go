package evictions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/examples/kubelet/summary"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/syncloop/eviction"
)

// watchRefresh is the lifetime of a registration with the kernel. It is renewed because reclaimable
// memory, which does not count as used, changes all the time.
const watchRefresh = 10 * time.Second

// Watch returns a Config.Watch for package eviction. It calls wake as soon as memory.available
// crosses a threshold, before the next pass. dir is the root of the memory controller of cgroup v1;
// version 2 has no such notifications.
func (m *Measurer) Watch(dir string) func(ctx context.Context, wake func()) error {
	return func(ctx context.Context, wake func()) error {
		for ctx.Err() == nil {
			usages, err := m.crossings(ctx)
			if err != nil {
				return err
			}
			if err := awaitUsage(ctx, dir, usages, wake); err != nil {
				return err
			}
		}
		return nil
	}
}

// crossings returns the usages, in bytes, at which thresholds of memory.available are crossed. Like
// the kernel's usage they include reclaimable memory.
func (m *Measurer) crossings(ctx context.Context) (usages []uint64, err error) {
	s, err := m.summary(ctx, summary.NodeAlone)
	if err != nil {
		return nil, err
	}
	memory := s.Node.Memory
	if memory == nil || memory.AvailableBytes == nil || memory.WorkingSetBytes == nil || memory.UsageBytes == nil || *memory.UsageBytes < *memory.WorkingSetBytes {
		return nil, nil // unknown at this time
	}
	capacity, reclaimable := *memory.AvailableBytes+*memory.WorkingSetBytes, *memory.UsageBytes-*memory.WorkingSetBytes
	for _, t := range m.cfg.Policy.Thresholds {
		if least := t.Value.Of(capacity); t.Signal == eviction.MemoryAvailable && least < capacity {
			usages = append(usages, capacity-least+reclaimable)
		}
	}
	return usages, nil
}

// awaitUsage calls wake when the usage of a cgroup crosses one of usages, and returns. Without a
// crossing it returns after watchRefresh or when ctx is done.
func awaitUsage(ctx context.Context, dir string, usages []uint64, wake func()) error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("evictions: eventfd: %w", err)
	}
	events := os.NewFile(uintptr(fd), "eventfd")
	defer events.Close() // ends the registration
	if err := registerUsages(dir, fd, usages); err != nil {
		return err
	}
	if err := events.SetReadDeadline(time.Now().Add(watchRefresh)); err != nil {
		return fmt.Errorf("evictions: eventfd: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = events.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	switch _, err := events.Read(make([]byte, 8)); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	case err != nil:
		return fmt.Errorf("evictions: %w", err)
	}
	wake()
	run.Sleep(ctx, time.Second) // repeated crossings within a second count as one
	return nil
}

// registerUsages registers an eventfd with the kernel for crossings of these usages.
func registerUsages(dir string, eventfd int, usages []uint64) error {
	usage, err := os.Open(filepath.Join(dir, "memory.usage_in_bytes"))
	if err != nil {
		return fmt.Errorf("evictions: %w", err)
	}
	defer usage.Close()
	control, err := os.OpenFile(filepath.Join(dir, "cgroup.event_control"), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("evictions: %w", err)
	}
	defer control.Close()
	for _, bytes := range usages {
		if _, err := fmt.Fprintf(control, "%d %d %d", eventfd, usage.Fd(), bytes); err != nil {
			return fmt.Errorf("evictions: a threshold of %d bytes: %w", bytes, err)
		}
	}
	return nil
}
