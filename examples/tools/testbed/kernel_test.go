package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// restoreKernel undoes a kubelet's changes and ignores parameters that the kernel lacks.
func TestRestoreKernel(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "kernel"), 0o755))
	panics := filepath.Join(root, "kernel", "panic")
	require.NoError(t, os.WriteFile(panics, []byte("0\n"), 0o644))
	before, err := readKernel(root)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"kernel/panic": "0\n"}, before)
	require.NoError(t, os.WriteFile(panics, []byte("10\n"), 0o644))
	require.NoError(t, restoreKernel(root, before))
	text, err := os.ReadFile(panics)
	require.NoError(t, err)
	require.Equal(t, "0\n", string(text))
	require.ErrorContains(t, restoreKernel(root, map[string]string{"vm/overcommit_memory": "0"}), "vm/overcommit_memory")
}
