// Package summary tells what a node and its pods use: the Summary API (/stats/summary, the
// types of k8s.io/kubelet), and the same figures for Prometheus, /metrics/resource and
// /metrics/cadvisor. It is what kubectl top and autoscalers are fed from, by way of a
// metrics server, and what evictions are decided by.
//
//	p, err := summary.New(summary.Config{NodeName: name, Collector: collector, Proc: os.DirFS("/proc"), ...})
//	go p.Run(ctx) // measures volumes and logs now and then
//	s, err := p.Summary(ctx, summary.All)
//	mux.Handle("/stats/summary", p.Stats())
//
// Everything is read when it is asked for, by package cri/stats, so that nothing is spent
// between two requests. Only volumes and logs are measured with a period, since a volume
// may have a million files, or be far away: a request tells what is known of them, and
// waits for nothing. A volume of a CSI driver is as full as the driver says. What hangs
// keeps the figures that it had, with their time; what fails is not known until it succeeds.
// Claims and Logs tell the same for kubelet_volume_stats_* and
// kubelet_container_log_filesystem_used_bytes.
//
// # Unknown is left out
//
// A figure that is not known is not there; upstream shows a zero for some of them. So
// there is no psi where the kernel has none for cgroups (cgroup v1), and no usageNanoCores
// before the second reading of a container. With several containers the ephemeral storage
// of a pod is the sum of what is known.
//
// System containers are kubelet, runtime, misc and pods, as far as their cgroups are known:
// that of the runtime is what --runtime-cgroups says. The health of volumes is not told: the
// API does not have it any more.
//
// process_count is of processes and threads, which is what limits of process IDs count.
// The interfaces of a pod are those that the process of its sandbox sees in its /proc: the
// runtime's word on networks costs several milliseconds for each pod, and is taken only
// for pods without a cgroup.
//
// # What is not in /metrics/cadvisor
//
// The names, types and labels are cAdvisor's, as the kubelet has them. These are missing:
//
//   - container_file_descriptors, container_sockets, container_ulimits_soft: they take a
//     look at every open file of every process of the node, at each scrape.
//   - container_processes: the kernel counts processes with their threads, which is
//     container_threads; for the others all of their IDs would have to be read.
//   - container_cpu_load_average_10s, container_cpu_load_d_average_10s, container_tasks_state:
//     averages need somebody who looks all the time; upstream shows 0.
//   - container_fs_*_merged_total, _sector_*, _seconds_total, container_fs_io_*: of cgroups
//     the kernel does not count them; upstream has zeros.
//   - container_blkio_device_usage_total: it is what container_fs_reads_bytes_total and its
//     three siblings say, per device.
//   - container_health_state: it is of docker; with CRI it has no meaning.
//   - machine_nvm_*, machine_dimm_*, machine_node_*, machine_cpu_books, machine_cpu_drawers,
//     machine_cpu_cache_*: hardware that nothing here depends on.
//   - of the sandbox of a pod, whose process sleeps, all but its network.
//   - cgroups that are neither the root, nor of pods, nor above them: services of the
//     system are not the kubelet's.
//
// container_fs_usage_bytes and container_fs_limit_bytes are there for containers, too: the
// layer that they write to. cAdvisor has lost these with docker.
package summary
