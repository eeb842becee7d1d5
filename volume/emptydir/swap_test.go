package emptydir

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/volume/mounts"
)

func TestMayBeOnDisk(t *testing.T) {
	const titles = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
	require.False(t, swapIsOn(titles))
	require.False(t, swapIsOn(""))
	require.True(t, swapIsOn(titles+"/dev/sda2 partition 1048572 0 -2\n"))

	dir := t.TempDir()
	m := &mounts.Memory{}
	refused, err := rejectsNoswap(t.Context(), m, dir)
	require.NoError(t, err)
	require.False(t, refused)
	m.Fault = func(context.Context, string, string) error { return errors.New("unknown option") }
	refused, err = rejectsNoswap(t.Context(), m, dir)
	require.NoError(t, err)
	require.True(t, refused)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = rejectsNoswap(ended, m, t.TempDir())
	require.ErrorIs(t, err, context.Canceled)
	_, err = rejectsNoswap(t.Context(), m, dir+"/none")
	require.ErrorIs(t, err, os.ErrNotExist)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = MayBeOnDisk(t.Context(), m, dir)
	require.NoError(t, err)
}
