package mounts_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/volume/mounts"
)

func withTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

func TestMemoryFaults(t *testing.T) {
	odd := errors.New("odd")
	dir := t.TempDir()
	var failing string
	m := &mounts.Memory{Unknown: []string{"noswap"}, Fault: func(_ context.Context, call, path string) error {
		require.Equal(t, dir, path)
		if call == failing {
			return odd
		}
		return nil
	}}
	require.ErrorIs(t, m.Mount(t.Context(), tmpfs(dir, "noswap")), errors.ErrUnsupported)
	for call, try := range map[string]func() error{
		"Mount":   func() error { return m.Mount(t.Context(), tmpfs(dir)) },
		"Unmount": func() error { return m.Unmount(t.Context(), dir) },
		"Detach":  func() error { return m.Detach(t.Context(), dir) },
		"At":      func() error { _, _, err := m.At(t.Context(), dir); return err },
		"Below":   func() error { _, err := m.Below(t.Context(), dir); return err },
	} {
		failing = call
		require.ErrorIs(t, try(), odd)
	}
	require.Empty(t, m.Calls())
	failing = ""
	require.NoError(t, m.Mount(t.Context(), tmpfs(dir)))
	require.Equal(t, []string{"Mount " + dir}, m.Calls())
}

func ExampleMemory() {
	dir, err := os.MkdirTemp("", "mounts")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx, m := context.Background(), &mounts.Memory{}
	err = m.Mount(ctx, mounts.Mount{Source: "tmpfs", Target: dir, FSType: "tmpfs", Options: []string{"size=65536", "ro"}})
	fmt.Println(err)
	p, mounted, err := m.At(ctx, dir)
	fmt.Println(filepath.Base(dir) == filepath.Base(p.Path), p.FSType, p.Size, p.ReadOnly, mounted, err)
	// Output:
	// <nil>
	// true tmpfs 65536 true true <nil>
}
