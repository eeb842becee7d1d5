package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// cache is a persistent folder with installed programs and one record per live run.
type cache struct{ dir string }

// openCache creates the folder below the user's cache folder, or below /var/cache without a home
// (a bare init, some CI runners).
func openCache() (cache, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		base = "/var/cache"
	}
	c := cache{dir: filepath.Join(base, "podwright-testbed")}
	if err := os.MkdirAll(c.runs(), 0o700); err != nil {
		return cache{}, fmt.Errorf("cache folder: %w", err)
	}
	return c, nil
}

func (c cache) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

func (c cache) runs() string { return c.path("runs") }

// locked runs f under a lock between testbeds. The lock ends with its process, also on kill
// -9.
func (c cache) locked(ctx context.Context, name string, f func() error) error {
	lock, err := os.OpenFile(c.path(name+".lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f()
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("lock %s: %w", lock.Name(), err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("lock %s: %w", lock.Name(), context.Cause(ctx))
		case <-tick.C:
		}
	}
}
