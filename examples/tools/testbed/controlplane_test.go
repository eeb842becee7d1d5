package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadExports(t *testing.T) {
	environ, err := readExports(strings.NewReader("export KUBECONFIG=/a/b c\nexport PODWRIGHT_CONTROLPLANE=/a\nmore"))
	require.NoError(t, err)
	require.Equal(t, []string{"KUBECONFIG=/a/b c", "PODWRIGHT_CONTROLPLANE=/a"}, environ)
	_, err = readExports(strings.NewReader("export KUBECONFIG=/a\n"))
	require.ErrorContains(t, err, "exited before it was ready")
	_, err = readExports(strings.NewReader("panic: no\n"))
	require.ErrorContains(t, err, `"panic: no"`)
}

func TestControlPlaneDir(t *testing.T) {
	dir, err := controlPlaneDir(t.Context())
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	require.Contains(t, string(text), "module github.com/podwright/podwright/examples/tools/controlplane\n")
}
