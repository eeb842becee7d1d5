package pods

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/cri/pods/resize"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/podworkers/stages/stagestest"
)

// restarted returns a pod whose container has been replaced twice.
func restarted(t *testing.T) (*harness, *observed.Pod) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a")
	for _, image := range []string{"busybox:1", "busybox:2", "busybox:3"} {
		pod.Spec.Containers[0].Image = image
		h.mustSync(pod)
	}
	got := h.status(pod)
	require.Len(t, got.Containers, 3)
	return h, got
}

func files(t *testing.T, pattern ...string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(pattern...))
	require.NoError(t, err)
	for i := range list {
		list[i] = filepath.Base(list[i])
	}
	return list
}

// C51: dead instances are removed with their logs, links and message files.
func TestCleanDeadContainers(t *testing.T) {
	h, got := restarted(t)
	logs := filepath.Join(h.dir, "pods", "shop_web_0d1e", "a")
	require.NoError(t, os.WriteFile(filepath.Join(logs, "0.log.20260101-000000.gz"), nil, 0o600))
	require.NoError(t, h.garbage.CleanDeadContainers(t.Context(), garbage.CleanRequest{Status: got}))
	require.Equal(t, []string{"1.log", "2.log"}, files(t, logs, "*"))
	require.Len(t, files(t, h.dir, "containers", "*"), 2)
	require.Equal(t, []string{"00000001", "00000002"}, files(t, h.dir, "kubelet", "0d1e", "containers", "a", "*"))
	pod := testPod("a")
	require.Len(t, h.status(pod).Containers, 2)
	require.NoError(t, h.garbage.CleanDeadContainers(t.Context(), garbage.CleanRequest{Status: h.status(pod), All: true}))
	require.Len(t, h.status(pod).Containers, 1)
	require.NoError(t, h.garbage.CleanDeadContainers(t.Context(), garbage.CleanRequest{Status: got, All: true}), "removing an absent object is no error")
}

// C42: a dangling link is removed, unless its container is live.
func TestDanglingLinks(t *testing.T) {
	h, got := restarted(t)
	require.NoError(t, os.RemoveAll(filepath.Join(h.dir, "pods")))
	other := filepath.Join(h.dir, "containers", "keep-me-0123456789.log")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	require.NoError(t, os.Symlink("/nowhere", filepath.Join(h.dir, "containers", "x-12345.log")))
	require.NoError(t, h.garbage.Collect(t.Context(), garbage.Request{Policy: garbage.Policy{MaxPerContainer: -1}}))
	require.Equal(t, []string{"keep-me-0123456789.log", "web_shop_a-" + got.Containers[0].ID.ID + ".log"}, files(t, h.dir, "containers", "*"))
}

// The Manager drops the state of removed objects, regardless of how they were removed.
func TestMemoryIsTrimmed(t *testing.T) {
	h, got := restarted(t)
	for _, c := range got.Containers {
		h.m.preStops.note(c.ID.ID)
	}
	require.NoError(t, h.garbage.CleanDeadContainers(t.Context(), garbage.CleanRequest{Status: got}))
	require.Len(t, h.m.preStops.over, 2)
	stopAll(t, h, testPod("a"))
	require.Len(t, h.m.stopped, 1)
	require.NoError(t, h.runtime.RuntimeService.RemovePodSandbox(t.Context(), got.Sandboxes[0].ID))
	require.NoError(t, h.garbage.Collect(t.Context(), garbage.Request{}))
	require.Empty(t, h.m.preStops.over)
	require.Empty(t, h.m.stopped)
}

// A container in unknown state is stopped before its removal: with its own grace period if its
// pod stays, and with the shortest one otherwise.
func TestUnknownIsStopped(t *testing.T) {
	for _, gone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h, l := timed(t, fake.Config{})
			pod := testPod("a")
			preStop(pod, "a", execHandler("3"))
			got := runPod(t, h, pod)
			id := got.Newest("a").ID.ID
			require.NoError(t, h.m.StopContainer(t.Context(), identityOf(pod).Pod, "a", id, !gone))
			require.NoError(t, h.m.RemoveContainer(t.Context(), identityOf(pod).Pod, "a", id))
			if gone {
				require.Equal(t, []string{"0s StopContainer a 2s"}, l.take())
			} else {
				require.Equal(t, []string{"0s exec a sleep 3", "3s StopContainer a 27s"}, l.take())
			}
			require.Empty(t, h.status(pod).Containers)
		})
	}
}

// A sandbox is stopped once before its removal, and again only by a Manager that has no record of
// the first stop.
func TestRemoveStopsOnce(t *testing.T) {
	for _, crash := range []bool{false, true} {
		h := newHarness(t, fake.Config{})
		pod := testPod("a")
		h.mustSync(pod)
		stopped := stopAll(t, h, pod)
		h.runtime.take()
		want := []string{"RemoveContainer a", "RemovePodSandbox "}
		if crash {
			h.restart()
			want = []string{"RemoveContainer a", "StopPodSandbox ", "RemovePodSandbox "}
		}
		require.NoError(t, h.garbage.RemovePod(t.Context(), pod.UID, stopped))
		require.Equal(t, want, h.runtime.take())
		require.Empty(t, h.m.stopped, "a removed sandbox is forgotten")
	}
}

type forgetfulImages struct {
	presentImages
	forgotten []types.UID
}

func (f *forgetfulImages) Forget(pod types.UID) { f.forgotten = append(f.forgotten, pod) }

// RemovePod removes all files, image records and resource records of a pod. A running container,
// or one whose state cannot be read, stays.
func TestRemovePod(t *testing.T) {
	away := false
	h, images := newHarness(t, fake.Config{Intercept: func(_ context.Context, call string, _ any) error {
		if away && call == "ContainerStatus" {
			return status.Error(codes.Unavailable, "away")
		}
		return nil
	}}), &forgetfulImages{}
	h.cfg.Images, h.cfg.Actuated = images, resize.NewMemory()
	h.restart()
	pod := testPod("a")
	pod.Spec.Containers[0].Resources = needs(100, 100)
	got := h.mustSync(pod)
	require.ErrorIs(t, h.garbage.RemovePod(t.Context(), "0d1e", got), garbage.ErrRunning)
	require.Empty(t, images.forgotten)
	stopped := stopAll(t, h, pod)
	h.runtime.take()
	away = true
	require.Equal(t, codes.Unavailable, status.Code(h.garbage.RemovePod(t.Context(), pod.UID, stopped)))
	require.Empty(t, h.runtime.take())
	away = false
	require.NoError(t, h.garbage.RemovePod(t.Context(), pod.UID, stopped))
	require.True(t, h.status(pod).Empty())
	require.Empty(t, files(t, h.dir, "pods", "*"))
	require.Empty(t, files(t, h.dir, "containers", "*"))
	require.Empty(t, files(t, h.dir, "kubelet", "0d1e", "containers", "a", "*"))
	require.Equal(t, []types.UID{pod.UID}, images.forgotten)
	record, err := h.cfg.Actuated.Load(pod.UID)
	require.NoError(t, err)
	require.True(t, record.Empty())
	require.NoError(t, h.m.KillPod(t.Context(), KillRequest{Pod: pod, Status: got}).Err(), "C34: an absent container counts as stopped")
	require.NoError(t, h.garbage.RemovePod(t.Context(), pod.UID, h.status(pod)))
}

func TestLogStage(t *testing.T) {
	stagestest.Run(t, func(t testing.TB) stagestest.Subject {
		dir := t.TempDir()
		cfg := LogStageConfig{Owner: cri.Owner{Unlabelled: true}, LogRoot: filepath.Join(dir, "logs"), LinkDir: filepath.Join(dir, "links")}
		require.NoError(t, os.Mkdir(cfg.LinkDir, 0o700))
		logs := func(pod *v1.Pod) error {
			container := filepath.Join(LogDir(cfg.LogRoot, pod.Namespace, pod.Name, pod.UID), "c")
			return errors.Join(os.MkdirAll(container, 0o700), os.WriteFile(filepath.Join(container, "0.log"), nil, 0o600))
		}
		link := func(pod *v1.Pod) error {
			err := os.Symlink(filepath.Join(LogDir(cfg.LogRoot, pod.Namespace, pod.Name, pod.UID), "c", "0.log"), filepath.Join(cfg.LinkDir, string(pod.UID)+".log"))
			if errors.Is(err, os.ErrExist) {
				err = nil
			}
			return err
		}
		return stagestest.Subject{
			Open: func() (stages.Stage, error) { return NewLogStage(cfg) },
			Use:  func(_ stages.Stage, pod *v1.Pod) error { return errors.Join(logs(pod), link(pod)) },
			Holds: func(uid types.UID) bool {
				found, err := filepath.Glob(filepath.Join(cfg.LogRoot, "*_"+string(uid)))
				_, linkErr := os.Lstat(filepath.Join(cfg.LinkDir, string(uid)+".log"))
				return err != nil || len(found) > 0 || linkErr == nil
			},
			Halfway: map[string]func(*v1.Pod) error{
				"logs without links": logs,
				"an empty directory": func(pod *v1.Pod) error {
					return os.MkdirAll(LogDir(cfg.LogRoot, pod.Namespace, pod.Name, pod.UID), 0o700)
				},
			},
		}
	})
}

func TestLogStageLeavesOtherFilesAlone(t *testing.T) {
	dir := t.TempDir()
	_, err := NewLogStage(LogStageConfig{Owner: cri.Owner{Unlabelled: true}, LogRoot: "logs"})
	require.ErrorContains(t, err, "LogStageConfig.LogRoot")
	s, err := NewLogStage(LogStageConfig{Owner: cri.Owner{Unlabelled: true}, LogRoot: dir})
	require.NoError(t, err)
	for _, other := range []string{"kube", "a_b_"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, other), 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ns_file_1"), nil, 0o600))
	left, err := s.Leftovers(t.Context())
	require.NoError(t, err)
	require.Empty(t, left)
	for _, uid := range []types.UID{"", "1", "kube"} {
		require.NoError(t, s.Release(t.Context(), uid))
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 3)
}
