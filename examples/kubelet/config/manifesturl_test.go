package config

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestManifestURL(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubelet.yaml")
	require.NoError(t, os.WriteFile(path, []byte(head+`
staticPodURL: https://server/pods
staticPodURLHeader: {x-team: [a, b]}
httpCheckFrequency: 5s
`), 0o600))
	c, err := FromArgs([]string{"--config", path}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "https://server/pods", c.Kubelet.StaticPodURL)
	require.Equal(t, http.Header{"X-Team": {"a", "b"}}, http.Header(c.Kubelet.StaticPodURLHeader))
	require.Equal(t, 5*time.Second, c.Kubelet.HTTPCheckFrequency.Duration)

	c, err = FromArgs([]string{"--config", path, "--manifest-url=http://other",
		"--manifest-url-header=Authorization: Bearer x:y, b:again", "--manifest-url-header=b:beautiful"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "http://other", c.Kubelet.StaticPodURL)
	require.Equal(t, http.Header{"Authorization": {"Bearer x:y"}, "B": {"again", "beautiful"}}, http.Header(c.Kubelet.StaticPodURLHeader), "instead of the file's")

	for want, args := range map[string][]string{
		`"ftp://u:xxxxx@h" is no http or https address`:  {"--manifest-url=ftp://u:secret@h"},
		"staticPodURL (--manifest-url): is not a URL":    {"--manifest-url=http://u:secret@a b"},
		"manifest-url-header: each pair must be name:v":  {"--manifest-url-header=secret"},
		"manifest-url-header: each pair must be name:va": {"--manifest-url-header=:x"},
	} {
		_, err := FromArgs(args, io.Discard)
		require.ErrorContains(t, err, want)
	}
	c, err = FromArgs([]string{"--manifest-url-header=b:secret,a:"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "A:<masked>,B:<masked>", c.Values()["manifest-url-header"])
}
