package critest

import (
	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

func statsCases() []testCase {
	return []testCase{
		{"a running container has figures", func(e *env) {
			p := e.newPod()
			config := e.container("main", quits.command()...)
			config.Annotations = map[string]string{"critest/note": "a note"}
			id := e.start(p.id, config, p.config)
			stats := e.containerStats(id)
			require.Equal(e.t, id, stats.GetAttributes().GetId())
			require.Equal(e.t, "main", stats.GetAttributes().GetMetadata().GetName())
			require.Equal(e.t, config.Labels, stats.GetAttributes().GetLabels())
			require.Equal(e.t, config.Annotations, stats.GetAttributes().GetAnnotations())
			require.Positive(e.t, stats.GetCpu().GetTimestamp())
			require.Positive(e.t, stats.GetMemory().GetTimestamp())
			require.NotEmpty(e.t, stats.GetWritableLayer().GetFsId().GetMountpoint())
			require.NotNil(e.t, stats.GetWritableLayer().GetUsedBytes())
		}},
		{"the processor time of a container that works grows", func(e *env) {
			p := e.newPod()
			id := e.start(p.id, e.container("main", quits.command()...), p.config)
			first := e.containerStats(id).GetCpu()
			e.eventually("growth", func() bool {
				next := e.containerStats(id).GetCpu()
				require.GreaterOrEqual(e.t, next.GetTimestamp(), first.GetTimestamp())
				require.GreaterOrEqual(e.t, next.GetUsageCoreNanoSeconds().GetValue(), first.GetUsageCoreNanoSeconds().GetValue())
				return next.GetUsageCoreNanoSeconds().GetValue() > first.GetUsageCoreNanoSeconds().GetValue()
			})
		}},
		// ContainerStats may succeed or fail.
		{"a container that does not run has no processor time", func(e *env) {
			p := e.newPod()
			created := e.create(p.id, e.container("created", quits.command()...), p.config)
			exited := e.start(p.id, e.container("exited", writesBoth.command()...), p.config)
			e.exited(exited)
			for _, id := range []string{created, exited} {
				if stats, err := e.Runtime.ContainerStats(e.ctx, id); err == nil {
					require.Nil(e.t, stats.GetCpu())
					require.Nil(e.t, stats.GetMemory())
				}
			}
			for _, stats := range e.listStats(&runtimeapi.ContainerStatsFilter{PodSandboxId: p.id}) {
				require.Nil(e.t, stats.GetCpu())
				require.Nil(e.t, stats.GetMemory())
			}
		}},
		{"statistics of containers are listed by ID, sandbox and label", func(e *env) {
			p, other := e.newPod(), e.newPod()
			a := e.start(p.id, e.container("a", quits.command()...), p.config)
			b := e.start(p.id, e.container("b", quits.command()...), p.config)
			c := e.start(other.id, e.container("a", quits.command()...), other.config)
			list := func(filter *runtimeapi.ContainerStatsFilter) []string {
				stats := e.listStats(filter)
				var ids []string
				for _, s := range stats {
					ids = append(ids, s.GetAttributes().GetId())
					require.NotEmpty(e.t, s.GetAttributes().GetMetadata().GetName())
				}
				return ids
			}
			label := map[string]string{"critest/container": "a"}
			require.Subset(e.t, list(nil), []string{a, b, c})
			require.ElementsMatch(e.t, []string{a, b}, list(&runtimeapi.ContainerStatsFilter{PodSandboxId: p.id}))
			require.ElementsMatch(e.t, []string{b}, list(&runtimeapi.ContainerStatsFilter{Id: b}))
			require.ElementsMatch(e.t, []string{a}, list(&runtimeapi.ContainerStatsFilter{PodSandboxId: p.id, LabelSelector: label}))
			require.Empty(e.t, list(&runtimeapi.ContainerStatsFilter{PodSandboxId: other.id, Id: a}))
		}},
		{"statistics of an unknown object are NotFound or an empty list", func(e *env) {
			p := e.newPod()
			id := e.create(p.id, e.container("main", quits.command()...), p.config)
			require.NoError(e.t, e.Runtime.RemoveContainer(e.ctx, id))
			e.removePod(p.id)
			_, err := e.Runtime.ContainerStats(e.ctx, id)
			e.notFound(err)
			list, err := e.Runtime.ListContainerStats(e.ctx, &runtimeapi.ContainerStatsFilter{Id: id})
			require.NoError(e.t, err)
			require.Empty(e.t, list)
			_, err = e.Runtime.PodSandboxStats(e.ctx, p.id)
			e.optional("PodSandboxStats", err)
			e.notFound(err)
			pods, err := e.Runtime.ListPodSandboxStats(e.ctx, &runtimeapi.PodSandboxStatsFilter{Id: p.id})
			require.NoError(e.t, err)
			require.Empty(e.t, pods)
		}},
		{"a ready sandbox has figures, and its containers'", func(e *env) {
			p := e.measuredPod()
			id := e.start(p.id, e.container("main", quits.command()...), p.config)
			e.containerStats(id)
			stats, err := e.Runtime.PodSandboxStats(e.ctx, p.id)
			e.optional("PodSandboxStats", err)
			require.NoError(e.t, err)
			require.Equal(e.t, p.id, stats.GetAttributes().GetId())
			require.Equal(e.t, p.config.GetMetadata().GetUid(), stats.GetAttributes().GetMetadata().GetUid())
			require.Equal(e.t, p.config.GetLabels(), stats.GetAttributes().GetLabels())
			linux := stats.GetLinux()
			require.Positive(e.t, linux.GetCpu().GetUsageCoreNanoSeconds().GetValue())
			require.Positive(e.t, linux.GetMemory().GetWorkingSetBytes().GetValue())
			require.NotEmpty(e.t, linux.GetNetwork().GetDefaultInterface().GetName())
			require.NotNil(e.t, linux.GetNetwork().GetDefaultInterface().GetRxBytes())
			require.Positive(e.t, linux.GetProcess().GetProcessCount().GetValue())
			require.Len(e.t, linux.GetContainers(), 1)
			require.Equal(e.t, id, linux.GetContainers()[0].GetAttributes().GetId())
			for _, filter := range []*runtimeapi.PodSandboxStatsFilter{{Id: p.id}, {LabelSelector: p.config.GetLabels()}} {
				list, err := e.Runtime.ListPodSandboxStats(e.ctx, filter)
				require.NoError(e.t, err)
				require.Len(e.t, list, 1)
				require.Equal(e.t, p.id, list[0].GetAttributes().GetId())
			}
		}},
		{"a stopped sandbox has no figures", func(e *env) {
			p := e.measuredPod()
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, p.id))
			e.notReady(p.id)
			_, err := e.Runtime.PodSandboxStats(e.ctx, p.id)
			e.optional("PodSandboxStats", err)
			require.Error(e.t, err)
			list, err := e.Runtime.ListPodSandboxStats(e.ctx, &runtimeapi.PodSandboxStatsFilter{Id: p.id})
			require.NoError(e.t, err)
			require.Empty(e.t, list)
		}},
	}
}

// containerStats waits for the figures of a running container and returns them.
func (e *env) containerStats(id string) *runtimeapi.ContainerStats {
	e.t.Helper()
	var stats *runtimeapi.ContainerStats
	e.eventually("figures", func() bool {
		var err error
		stats, err = e.Runtime.ContainerStats(e.ctx, id)
		require.NoError(e.t, err)
		return stats.GetCpu().GetUsageCoreNanoSeconds().GetValue() > 0 && stats.GetMemory().GetWorkingSetBytes().GetValue() > 0
	})
	return stats
}

// listStats lists statistics. It retries if a container was removed meanwhile, possibly by another
// case.
func (e *env) listStats(filter *runtimeapi.ContainerStatsFilter) []*runtimeapi.ContainerStats {
	e.t.Helper()
	var list []*runtimeapi.ContainerStats
	e.eventually("a list", func() bool {
		var err error
		list, err = e.Runtime.ListContainerStats(e.ctx, filter)
		if cri.IsNotFound(err) {
			return false
		}
		require.NoError(e.t, err)
		return true
	})
	return list
}

// measuredPod runs a sandbox in the cgroup that the runtime may need for statistics.
func (e *env) measuredPod() livePod {
	e.t.Helper()
	config := e.pod()
	config.Linux.CgroupParent = e.CgroupParent
	return livePod{config, e.run(config)}
}
