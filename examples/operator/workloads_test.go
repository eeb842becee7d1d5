package main

import (
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

// What the informer has may be older than what the operator wrote itself: the API server then
// refuses to write that once more, which is no reason to end what runs.
func TestInformerIsBehind(t *testing.T) {
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{kind: "WorkloadList"})
	conflict := true
	client.PrependReactor("patch", "workloads", func(clienttesting.Action) (bool, runtime.Object, error) {
		if conflict {
			return true, nil, apierrors.NewConflict(kind.GroupResource(), "web", nil)
		}
		return true, &unstructured.Unstructured{Object: map[string]any{}}, nil
	})
	dir := t.TempDir()
	w := newWorkloads(client, "us", func(uid types.UID) string { return filepath.Join(dir, string(uid)) })
	require.NoError(t, w.informer.GetStore().Add(&unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "1"},
		"spec":     map[string]any{"runner": "us", "pod": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "i"}}}},
	}}))

	require.Empty(t, w.pods(t.Context()), "it is not held, so its end would not be known")
	<-w.changed // it is tried again, though nothing tells of a change
	conflict = false
	require.Len(t, w.pods(t.Context()), 1)
	conflict = true
	require.Len(t, w.pods(t.Context()), 1)
}
