package cluster_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// chaosFault is a fault that begins between two kubelets and ends before a later one.
type chaosFault struct {
	name       string
	begin, end func(*testing.T, *chaos)
}

func chaosFaults() []chaosFault {
	withRequestFault := func(name string, fault func(http.ResponseWriter, *http.Request) bool) chaosFault {
		begin, end := requestFault(fault)
		return chaosFault{name, func(_ *testing.T, c *chaos) { begin(c.proxy) }, func(_ *testing.T, c *chaos) { end(c.proxy) }}
	}
	return []chaosFault{
		{"away", func(_ *testing.T, c *chaos) { c.setDown(true) }, func(_ *testing.T, c *chaos) { c.setDown(false) }},
		{"cut", func(_ *testing.T, c *chaos) { c.blackhole.Store(true) }, func(_ *testing.T, c *chaos) { c.blackhole.Store(false) }},
		withRequestFault("slow", slow(500*time.Millisecond)),
		withRequestFault("failing", refusing(http.StatusInternalServerError, metav1.StatusReasonInternalError, always)),
		{"runtime", func(t *testing.T, c *chaos) { c.runtime.Stop(t) }, func(t *testing.T, c *chaos) { c.runtime.Start(t) }},
		{"clock", func(_ *testing.T, c *chaos) { c.clock.Set(c.skew()) }, func(_ *testing.T, c *chaos) { c.clock.Set(0) }},
		{"disk", func(t *testing.T, c *chaos) { c.fillDisk(t) }, func(t *testing.T, c *chaos) { c.emptyDisk(t) }},
	}
}

func (c *chaos) skew() time.Duration { return time.Duration(1-2*c.rand.IntN(2)) * time.Hour }

// changeFault ends the current fault, or begins a new one, or does nothing.
func (c *chaos) changeFault(t *testing.T) {
	t.Helper()
	switch all := chaosFaults(); {
	case c.rand.IntN(2) == 0:
	case c.fault != nil:
		c.endFault(t)
	default:
		c.fault = &all[c.rand.IntN(len(all))]
		c.faults[c.fault.name]++
		c.fault.begin(t, c)
	}
}

func (c *chaos) endFault(t *testing.T) {
	t.Helper()
	if c.fault != nil {
		c.fault.end(t, c)
		c.fault = nil
	}
}

func (c *chaos) filler() string { return filepath.Join(c.root, "filler") }

func (c *chaos) fillDisk(t *testing.T) {
	t.Helper()
	f, err := os.Create(c.filler())
	require.NoError(t, err)
	_, err = io.Copy(f, zeroReader{})
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NoError(t, f.Close())
}

func (c *chaos) emptyDisk(t *testing.T) {
	t.Helper()
	if err := os.Remove(c.filler()); !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
}

type zeroReader struct{}

func (zeroReader) Read(b []byte) (int, error) { return len(b), nil }
