package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/stretchr/testify/require"
)

func TestImageNames(t *testing.T) {
	require.Equal(t, map[string]string{"Agnhost": "e2e-test-images/agnhost:2.63.0", "Pause": "pause:3.10.2", "NodePerfNpbEp": "e2e-test-images/node-perf/npb-ep:1.6.0"},
		imageNames(`	configs[Agnhost] = Config{list.PromoterE2eRegistry, "agnhost", "2.63.0"}
	configs[AgnhostPrivate] = Config{list.PrivateRegistry, "agnhost", "2.6"}
	configs[NodePerfNpbEp] = Config{list.PromoterE2eRegistry, "node-perf/npb-ep", "1.6.0"}
	configs[Pause] = Config{list.GcRegistry, "pause", "3.10.2"}
	configs[i] = config
`))
	require.True(t, isIdentifier("BusyBox"))
	require.False(t, isIdentifier("e2e-test-images/busybox:1.36.1-1"))
}

// Each image has the files of its recipe, and images with equal files differ.
func TestRecipes(t *testing.T) {
	dir := t.TempDir()
	porter := filepath.Join(dir, "test/images/agnhost/porter")
	require.NoError(t, os.MkdirAll(porter, 0o755))
	for _, path := range []string{"agnhost", "applets", "nonewprivs", "sample-device-plugin", porter + "/localhost.crt", porter + "/localhost.key"} {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		require.NoError(t, os.WriteFile(path, []byte("content"), 0o755))
	}
	recipes, err := suiteRecipes(programs{images: dir, kubernetes: dir}, empty.Image, empty.Image)
	require.NoError(t, err)
	digests, modes := map[string]bool{}, map[string]int64{}
	count := 0
	for _, r := range recipes {
		for _, id := range r.ids {
			count++
			img, err := r.build(id)
			require.NoError(t, err)
			digest, err := img.Digest()
			require.NoError(t, err)
			digests[digest.String()] = true
			files := mutate.Extract(img)
			for archive := tar.NewReader(files); ; {
				header, err := archive.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				modes[header.Name] = header.Mode
			}
			require.NoError(t, files.Close())
		}
	}
	require.Len(t, digests, count)
	require.Equal(t, int64(0o6755), modes["usr/local/bin/nnp"])
	for _, name := range []string{"agnhost", "agnhost-2", "localhost.key", "usr/bin/nmeter", "usr/sbin/nginx", "data.json", "var/registry/pause/manifests/testing"} {
		require.Contains(t, modes, name)
	}
}
