package filesink_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/filesink"
)

func open(t *testing.T, path string) *filesink.Sink {
	t.Helper()
	s, err := filesink.New(filesink.Config{Path: path})
	require.NoError(t, err)
	return s
}

func newPod(name, uid string) *v1.Pod {
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", name, types.UID(uid)
	pod.Spec.Containers = []v1.Container{{Name: "main"}}
	return pod
}

func refOf(pod *v1.Pod) status.Ref {
	return status.Ref{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

func patch(t *testing.T, s *filesink.Sink, pod *v1.Pod, phase v1.PodPhase) {
	t.Helper()
	_, err := s.Patch(t.Context(), refOf(pod), &v1.PodStatus{}, &v1.PodStatus{Phase: phase})
	require.NoError(t, err)
}

func read(t testing.TB, path string) *v1.PodList {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	list := &v1.PodList{}
	require.NoError(t, json.Unmarshal(text, list))
	return list
}

func TestFileHasWrittenStatuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.json")
	s := open(t, path)
	web, db := newPod("web", "u1"), newPod("db", "u2")
	require.NoError(t, s.Put(web))
	require.NoError(t, s.Put(db))
	patch(t, s, web, v1.PodRunning)

	list := read(t, path)
	require.Equal(t, "PodList", list.Kind)
	require.Len(t, list.Items, 2)
	require.Equal(t, "db", list.Items[0].Name, "sorted")
	require.Equal(t, v1.PodRunning, list.Items[1].Status.Phase)

	require.NoError(t, s.Remove(web))
	require.NoError(t, s.Remove(web), "a second time")
	require.NoError(t, s.Remove(newPod("db", "u9")), "another pod with the name stays")
	require.Len(t, read(t, path).Items, 1)
}

func TestAStatusStaysWithItsUID(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "status.json"))
	require.NoError(t, s.Put(newPod("web", "u1")))
	patch(t, s, newPod("web", "u1"), v1.PodRunning)

	edited := newPod("web", "u1")
	edited.Labels = map[string]string{"a": "b"}
	require.NoError(t, s.Put(edited))
	got, err := s.Get(t.Context(), refOf(edited))
	require.NoError(t, err)
	require.Equal(t, v1.PodRunning, got.Status.Phase)
	require.Equal(t, edited.Labels, got.Labels)

	require.NoError(t, s.Put(newPod("web", "u2")))
	_, err = s.Patch(t.Context(), refOf(edited), &v1.PodStatus{}, &v1.PodStatus{Phase: v1.PodFailed})
	require.ErrorIs(t, err, status.ErrConflict)
	got, err = s.Get(t.Context(), refOf(edited))
	require.NoError(t, err)
	require.Equal(t, types.UID("u2"), got.UID)
	require.Empty(t, got.Status.Phase)
}

func TestPrune(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.json")
	s := open(t, path)
	web, db := newPod("web", "u1"), newPod("db", "u2")
	require.NoError(t, s.Put(web))
	require.NoError(t, s.Put(db))
	patch(t, s, db, v1.PodRunning)
	require.NoError(t, s.Prune(func(uid types.UID) bool { return uid == "u2" }))
	require.Len(t, read(t, path).Items, 1)
	require.Equal(t, v1.PodRunning, s.Status(db).Phase)
	require.Empty(t, s.Status(newPod("db", "u3")), "another pod with the name")
	require.NoError(t, s.Put(web), "a removed pod can return")
	require.Len(t, read(t, path).Items, 2)
}

func TestUnknownPods(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "status.json"))
	ref := refOf(newPod("web", "u1"))
	_, err := s.Get(t.Context(), ref)
	require.ErrorIs(t, err, status.ErrNotFound)
	_, err = s.Patch(t.Context(), ref, &v1.PodStatus{}, &v1.PodStatus{Phase: v1.PodFailed})
	require.ErrorIs(t, err, status.ErrNotFound)
	require.ErrorIs(t, s.Delete(t.Context(), ref), status.ErrNotFound)
}

func TestARestartShowsThePodsAsTheyWere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.json")
	s := open(t, path)
	require.NoError(t, s.Put(newPod("web", "u1")))
	patch(t, s, newPod("web", "u1"), v1.PodRunning)
	killed := filepath.Join(filepath.Dir(path), ".status.json.tmp-1") // of a killed writer
	require.NoError(t, os.WriteFile(killed, nil, 0o600))

	again := open(t, path)
	require.NoFileExists(t, killed)
	got, err := again.Get(t.Context(), refOf(newPod("web", "u1")))
	require.NoError(t, err)
	require.Equal(t, v1.PodRunning, got.Status.Phase)
	require.NoError(t, again.Put(newPod("web", "u1")))
	got, err = again.Get(t.Context(), refOf(newPod("web", "u1")))
	require.NoError(t, err)
	require.Equal(t, v1.PodRunning, got.Status.Phase)
}

func TestUnusableFiles(t *testing.T) {
	for name, text := range map[string]string{
		"half":      `{"kind":"PodList","items":[{"metadata":{"na`,
		"not a pod": `{"items":[{}]}`,
		"empty":     "",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "status.json")
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			s := open(t, path)
			aside, err := os.ReadFile(path + ".corrupt")
			require.NoError(t, err)
			require.Equal(t, text, string(aside))
			require.NoError(t, s.Put(newPod("web", "u1")))
			require.Len(t, read(t, path).Items, 1)
		})
	}
}

func TestBadPaths(t *testing.T) {
	_, err := filesink.New(filesink.Config{Path: "status.json"})
	require.ErrorContains(t, err, "Config.Path")
	folder := t.TempDir()
	_, err = filesink.New(filesink.Config{Path: folder})
	require.ErrorContains(t, err, folder)
}

// A failed write is an error, and the next write contains all changes.
func TestFailedWrite(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "folder")
	path := filepath.Join(folder, "status.json")
	require.NoError(t, os.Mkdir(folder, 0o700))
	s := open(t, path)
	require.NoError(t, os.RemoveAll(folder))
	pod := newPod("web", "u1")
	require.ErrorContains(t, s.Put(pod), path)
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.NoError(t, s.Put(pod))
	require.Len(t, read(t, path).Items, 1)
}

func TestConcurrentPuts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.json")
	s := open(t, path)
	var writers sync.WaitGroup
	for i := range 50 {
		writers.Go(func() {
			pod := newPod(fmt.Sprintf("p%d", i), fmt.Sprintf("u%d", i))
			if err := s.Put(pod); err != nil {
				t.Error(err)
			}
			patch(t, s, pod, v1.PodRunning)
		})
	}
	writers.Wait()
	list := read(t, path)
	require.Len(t, list.Items, 50)
	for _, pod := range list.Items {
		require.Equal(t, v1.PodRunning, pod.Status.Phase, pod.Name)
	}
}

func TestHTTPIsReadOnly(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "status.json"))
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/pods", nil))
	require.Equal(t, http.StatusMethodNotAllowed, answer.Code)
	require.Equal(t, "GET, HEAD", answer.Header().Get("Allow"))
}
