package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// The informer may have an older version than the operator wrote. The API server then refuses the
// next write, and the pod must continue. So must the pod of a workload with an invalid spec.
func TestPodsContinue(t *testing.T) {
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource: "WorkloadList"})
	conflict := true
	client.PrependReactor("patch", "workloads", func(clienttesting.Action) (bool, runtime.Object, error) {
		if conflict {
			return true, nil, apierrors.NewConflict(resource.GroupResource(), "web", nil)
		}
		return true, &unstructured.Unstructured{Object: map[string]any{}}, nil
	})
	dir := t.TempDir()
	w := newWorkloads(client, "us", func(uid types.UID) string { return filepath.Join(dir, string(uid)) })
	put := func(containers ...any) {
		require.NoError(t, w.informer.GetStore().Add(&unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "1"},
			"spec":     map[string]any{"runner": "us", "pod": map[string]any{"containers": containers}},
		}}))
	}
	put(map[string]any{"name": "main", "image": "i"})

	require.Empty(t, w.pods(t.Context()), "no pod without the finalizer, because its deletion could be missed")
	<-w.changed // a retry without an event
	conflict = false
	require.Len(t, w.pods(t.Context()), 1)
	conflict = true
	require.Len(t, w.pods(t.Context()), 1)

	// The stored spec is replaced as a whole, so that a kill or a full disk costs none.
	stored, err := os.Open(w.file("u"))
	require.NoError(t, err)
	defer stored.Close()
	put(map[string]any{"name": "main", "image": "next"})
	require.Len(t, w.pods(t.Context()), 1)
	first, err := io.ReadAll(stored)
	require.NoError(t, err)
	require.Contains(t, string(first), `"image":"i"`)
	put(map[string]any{"name": "main", "image": "i"})
	require.Len(t, w.pods(t.Context()), 1)

	// With an invalid spec the previous pod continues, also after a restart of the operator.
	put()
	require.Len(t, w.pods(t.Context()), 1)
	w = newWorkloads(client, "us", w.file)
	put()
	conflict = false
	pods := w.pods(t.Context())
	require.Len(t, pods, 1)
	require.Equal(t, "i", pods[0].Spec.Containers[0].Image)
}
