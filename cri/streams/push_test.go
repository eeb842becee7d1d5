package streams_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pushCopy pushes a copy of an image to its plain-HTTP registry under a new name. The copy has
// another ID, so that changes to it in a runtime do not affect the image.
func pushCopy(t *testing.T, image string) string {
	t.Helper()
	registry, path, _ := strings.Cut(image, "/")
	repository, tag, _ := strings.Cut(path, ":")
	base := "http://" + registry + "/v2/" + repository
	manifest, kind := fetch(t, base+"/manifests/"+tag)
	var parsed map[string]any
	require.NoError(t, json.Unmarshal(manifest, &parsed))
	descriptor, ok := parsed["config"].(map[string]any)
	require.True(t, ok, "%s is no image manifest: %s", image, manifest)

	raw, _ := fetch(t, fmt.Sprintf("%s/blobs/%v", base, descriptor["digest"]))
	var config map[string]any
	require.NoError(t, json.Unmarshal(raw, &config))
	config["author"] = "critest " + rand.Text()
	raw, err := json.Marshal(config)
	require.NoError(t, err)
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(raw))
	descriptor["digest"], descriptor["size"] = digest, len(raw)
	manifest, err = json.Marshal(parsed)
	require.NoError(t, err)

	send(t, http.MethodPost, base+"/blobs/uploads/?digest="+digest, "application/octet-stream", raw)
	copied := "critest-" + strings.ToLower(rand.Text())
	send(t, http.MethodPut, base+"/manifests/"+copied, kind, manifest)
	return registry + "/" + repository + ":" + copied
}

func fetch(t *testing.T, url string) (body []byte, contentType string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	request.Header.Set("Accept", "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json, */*")
	return do(t, request)
}

func send(t *testing.T, method, url, contentType string, body []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", contentType)
	do(t, request)
}

// do uses a separate connection that does not stay open.
func do(t *testing.T, request *http.Request) (body []byte, contentType string) {
	t.Helper()
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, 2, response.StatusCode/100, "%s %s: %s: %s", request.Method, request.URL, response.Status, body)
	return body, response.Header.Get("Content-Type")
}
