package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// testRegistry serves images with one random layer over HTTP, optionally with a password.
type testRegistry struct {
	server *httptest.Server
	// password, if set, is the password of user "u".
	password string

	mu      sync.Mutex
	content map[string][]byte // by digest
	tags    map[string]string // "name:tag" to the digest of the manifest
}

func newTestRegistry(t *testing.T, password string) *testRegistry {
	r := &testRegistry{password: password, content: map[string][]byte{}, tags: map[string]string{}}
	r.server = httptest.NewServer(r)
	t.Cleanup(r.server.Close)
	return r
}

func (r *testRegistry) image(t *testing.T, name string) string {
	t.Helper()
	layer, diffID := randomLayer(t)
	config := r.put(mustJSON(t, map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{"User": "1000"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{diffID}},
	}))
	descriptor := func(kind, digest string) map[string]any {
		return map[string]any{"mediaType": "application/vnd.oci.image." + kind, "digest": digest, "size": len(r.content[digest])}
	}
	digest := r.put(layer)
	manifest := r.put(mustJSON(t, map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": descriptor("config.v1+json", config), "layers": []any{descriptor("layer.v1.tar+gzip", digest)},
	}))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tags[name+":v1"] = manifest
	return strings.TrimPrefix(r.server.URL, "http://") + "/" + name + ":v1"
}

const manifestType = "application/vnd.oci.image.manifest.v1+json"

func mustJSON(t *testing.T, v any) []byte {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return data
}

// randomLayer returns a layer that no runtime can have yet, and its uncompressed digest.
func randomLayer(t *testing.T) (compressed []byte, diffID string) {
	data := make([]byte, 1<<20)
	_, _ = rand.Read(data)
	var plain, packed bytes.Buffer
	archive := tar.NewWriter(&plain)
	require.NoError(t, archive.WriteHeader(&tar.Header{Name: "data", Mode: 0o644, Size: int64(len(data))}))
	_, err := archive.Write(data)
	require.NoError(t, err)
	require.NoError(t, archive.Close())
	zip := gzip.NewWriter(&packed)
	_, err = zip.Write(plain.Bytes())
	require.NoError(t, err)
	require.NoError(t, zip.Close())
	return packed.Bytes(), digestOf(plain.Bytes())
}

func digestOf(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

func (r *testRegistry) put(data []byte) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.content[digestOf(data)] = data
	return digestOf(data)
}

// ServeHTTP serves the part of the distribution protocol that a pull uses.
func (r *testRegistry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if user, password, _ := req.BasicAuth(); r.password != "" && (user != "u" || password != r.password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		http.Error(w, `{"errors": [{"code": "UNAUTHORIZED"}]}`, http.StatusUnauthorized)
		return
	}
	path := strings.TrimPrefix(req.URL.Path, "/v2/")
	name, what, isManifest := strings.Cut(path, "/manifests/")
	if !isManifest {
		_, what, _ = strings.Cut(path, "/blobs/")
	}
	r.mu.Lock()
	if isManifest && !strings.HasPrefix(what, "sha256:") {
		what = r.tags[name+":"+what]
	}
	data, ok := r.content[what]
	r.mu.Unlock()
	if path != "" && !ok {
		http.Error(w, `{"errors": [{"code": "NAME_UNKNOWN"}]}`, http.StatusNotFound)
		return
	}
	if isManifest {
		w.Header().Set("Content-Type", manifestType)
	}
	w.Header().Set("Docker-Content-Digest", what)
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	_, _ = w.Write(data) // discarded for HEAD
}
