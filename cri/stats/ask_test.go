package stats_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/stats"
)

// inCgroup starts a pod whose container is in the pod's cgroup, and collects there.
func (s *scene) inCgroup(change func(*stats.CollectorConfig)) *stats.Collector {
	ids, files := s.pod("a", "x"), fstest.MapFS{}
	cgroups(files, "/p", map[string][2]string{"": {"6", "3"}, "/" + ids[0]: {"1", "1"}, "/" + ids[1]: {"2", "1"}})
	return s.collector(func(cfg *stats.CollectorConfig) {
		cfg.Reader = v2(s.t, files)
		cfg.PodCgroups = func() map[string]string { return map[string]string{"uid-a": "/p"} }
		change(cfg)
	})
}

// podsAlone tells of pods without their containers.
type podsAlone struct{ *scene }

func (r podsAlone) ListPodSandboxStats(ctx context.Context, filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	list, err := r.scene.ListPodSandboxStats(ctx, filter)
	for _, s := range list {
		s.Linux.Containers = nil
	}
	return list, err
}

// A container outside of its pod's cgroup is asked for, also where another pod has none.
func TestContainerOutsideAndPodWithout(t *testing.T) {
	s := newScene(t)
	s.pod("a", "x")
	ids, files := s.pod("b", "y", "z"), fstest.MapFS{}
	cgroups(files, "/q", map[string][2]string{"": {"50", "5"}, "/" + ids[1]: {"40", "4"}})
	pods := collect(t, s.collector(func(cfg *stats.CollectorConfig) {
		cfg.Runtime, cfg.Reader = podsAlone{s}, v2(t, files)
		cfg.PodCgroups = func() map[string]string { return map[string]string{"uid-b": "/q"} }
	}), stats.Wanted{})
	require.EqualValues(t, 8<<20, *pods[0].Usage.Memory.Usage)
	require.EqualValues(t, 40, *pods[1].Containers[0].Usage.Memory.Usage)
	require.EqualValues(t, 8<<20, *pods[1].Containers[1].Usage.Memory.Usage)
}

// A runtime that fails to tell of storage is named; one that never tells is not.
func TestStorageIsRefused(t *testing.T) {
	for _, test := range []struct {
		err  error
		told bool
	}{
		{errors.New("broken"), true},
		{status.Error(codes.Unimplemented, "no"), false},
	} {
		s := newScene(t)
		s.refuse["ListContainerStats"] = test.err
		pods, unread, err := s.inCgroup(func(*stats.CollectorConfig) {}).Collect(t.Context(), stats.Wanted{Storage: true})
		require.NoError(t, err)
		require.Nil(t, pods[0].Containers[0].Writable)
		require.EqualValues(t, 2, *pods[0].Containers[0].Usage.Memory.Usage)
		if test.told {
			require.Equal(t, []error{test.err}, unread)
		} else {
			require.Empty(t, unread)
		}
	}
}

// slow takes a second to tell of containers.
type slow struct{ *scene }

func (r slow) ListContainerStats(ctx context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	time.Sleep(time.Second)
	return r.scene.ListContainerStats(ctx, filter)
}

// Those who want storage at the same time are served by one call.
func TestStorageIsAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		c := s.inCgroup(func(cfg *stats.CollectorConfig) { cfg.Runtime = slow{s} })
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				pods, _, err := c.Collect(t.Context(), stats.Wanted{Storage: true})
				if err != nil || pods[0].Containers[0].Writable == nil {
					t.Errorf("no storage: %v", err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 1, s.calls["ListContainerStats"])
	})
}
