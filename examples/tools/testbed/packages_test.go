package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSplitPackages(t *testing.T) {
	const module = "github.com/podwright/podwright/"
	pkgs, err := splitPackages(t.Context())
	require.NoError(t, err)
	for _, pkg := range []string{"cri/pods", "cri/streams", "probe/internal/containerd", "examples/edge", "examples/kubelet/e2e", "examples/tools/testbed"} {
		require.Contains(t, pkgs.runtime, module+pkg)
	}
	// cri/fake has tests, internal/testkit/testcri has none.
	for _, pkg := range []string{"podworkers", "cri/fake", "internal/testkit/testcri", "examples/kubelet/agent"} {
		require.Contains(t, pkgs.units, module+pkg)
	}
	require.Contains(t, pkgs.controlPlane, controlPlanePackage)
	all, err := exec.CommandContext(t.Context(), "go", "list", "work").Output()
	require.NoError(t, err)
	require.ElementsMatch(t, strings.Fields(string(all)), slices.Concat(pkgs.units, pkgs.runtime, pkgs.controlPlane))
}

// Packages that need a runtime are found by their imports. So no other package may read the
// addresses of the runtimes.
func TestRuntimesAreFoundByImports(t *testing.T) {
	pkgs, err := splitPackages(t.Context())
	require.NoError(t, err)
	const files = `{{$p := .}}{{range .GoFiles}}{{if ne $p.Name "main"}}{{$p.Dir}}/{{.}}
{{end}}{{end}}{{range .TestGoFiles}}{{$p.Dir}}/{{.}}
{{end}}{{range .XTestGoFiles}}{{$p.Dir}}/{{.}}
{{end}}`
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-f", files}, pkgs.units...)...).Output()
	require.NoError(t, err)
	require.NotEmpty(t, out)
	for _, file := range strings.Fields(string(out)) {
		if strings.HasSuffix(file, "/internal/testkit/testcri/testcri.go") || strings.HasSuffix(file, "/internal/env/env.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, variable := range []string{"PODWRIGHT_CRI_V", "PODWRIGHT_IMAGE_", "PODWRIGHT_REGISTRY", "PODWRIGHT_CTL", "PODWRIGHT_CONTROLPLANE"} {
			require.False(t, strings.Contains(string(text), `"`+variable), "%s: take the runtimes from %s or %s", file, tbPackage, testcriPackage)
		}
	}
}
