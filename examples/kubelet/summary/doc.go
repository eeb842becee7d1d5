// Package summary reports the resource usage of a node and its pods: the Summary API
// (/stats/summary, with the types of k8s.io/kubelet), and the same figures for Prometheus as
// /metrics/resource and /metrics/cadvisor. Metrics servers read it for kubectl top and autoscalers,
// and evictions use it.
//
//	p, err := summary.New(summary.Config{NodeName: name, Collector: collector, Proc: os.DirFS("/proc"), ...})
//	go p.Run(ctx) // measures volumes and logs periodically
//	s, err := p.Summary(ctx, summary.All)
//	mux.Handle("/stats/summary", p.Stats())
//
// Each request reads fresh figures with package cri/stats, so an idle Provider costs nothing. Only
// volumes and logs are measured periodically, because a volume may have a million files or be
// remote. A request returns the last measurement and never waits for one. The usage of a CSI volume
// is that reported by its driver. While a measurement hangs, the previous figures stay, with their
// time; after a failure they are unknown until the next success. Claims and Logs have the same
// figures for kubelet_volume_stats_* and kubelet_container_log_filesystem_used_bytes.
//
// # Unknown figures are absent
//
// Upstream reports zero for some unknown figures. Here they are absent. So there is no psi where the
// kernel has none for cgroups (cgroup v1), and no usageNanoCores before the second reading of a
// container. The ephemeral storage of a pod is the sum of its known parts.
//
// System containers are kubelet, runtime, misc and pods, if their cgroups are known;
// --runtime-cgroups names the runtime's. The health of volumes is not reported: the API has dropped
// it.
//
// process_count counts processes and threads, as limits of process IDs do. The interfaces of a pod
// come from the /proc of its sandbox's process. The runtime is queried for networks only for pods
// without a cgroup, because that costs several milliseconds per pod.
//
// # Metrics missing from /metrics/cadvisor
//
// Names, types and labels are the same as cAdvisor's in the kubelet. These are missing:
//
//   - container_file_descriptors, container_sockets, container_ulimits_soft: each scrape would
//     have to read every open file of every process of the node.
//   - container_processes: the kernel counts processes with their threads, which is
//     container_threads; a separate count would have to read all their IDs.
//   - container_cpu_load_average_10s, container_cpu_load_d_average_10s, container_tasks_state:
//     averages need continuous sampling; upstream reports 0.
//   - container_fs_*_merged_total, _sector_*, _seconds_total, container_fs_io_*: the kernel does
//     not count them per cgroup; upstream reports 0.
//   - container_blkio_device_usage_total: container_fs_reads_bytes_total and its three siblings
//     have the same figures per device.
//   - container_health_state: it is specific to Docker and has no meaning with CRI.
//   - machine_nvm_*, machine_dimm_*, machine_node_*, machine_cpu_books, machine_cpu_drawers,
//     machine_cpu_cache_*: hardware that this repository does not use.
//   - the sandbox of a pod: only its network is reported, because its process sleeps.
//   - cgroups other than the root, those of pods and their ancestors: system services do not
//     belong to the kubelet.
//
// container_fs_usage_bytes and container_fs_limit_bytes also exist for containers, for their
// writable layer. cAdvisor lost these with Docker.
package summary
