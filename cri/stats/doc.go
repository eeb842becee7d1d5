// Package stats measures the resource usage of pods without cAdvisor: from the files of their
// cgroups, or from their runtime.
//
// A [Collector] measures all pods of a runtime:
//
//	c, err := stats.NewCollector(stats.CollectorConfig{Runtime: runtime, Owner: owner})
//	pods, unread, err := c.Collect(ctx, stats.CollectOptions{Storage: true})
//
// With a Reader and the pods' cgroups it reads the cgroups itself, because runtimes read the same
// files with one process per container. It then uses the runtime only for lists, and for storage
// every ten seconds at most. [Running] and [Merge] are its pure parts. It never calls
// ListPodSandboxMetrics, which crashes containerd 2.2.1 on cgroup v1.
//
// A [Reader] reads one mounted hierarchy, of cgroup v1 or v2, as an fs.FS, so that tests can use
// recorded trees:
//
//	r, err := stats.New(stats.Config{FS: os.DirFS("/sys/fs/cgroup"), Version: stats.V2})
//	...
//	usage, err := r.Read("/kubepods/burstable/pod1f2e")
//
// # Unknown figures
//
// Every figure is a pointer. A nil figure is unavailable: the controller is disabled, the kernel
// lacks the file, or the file has no number. An unreadable file does not affect other figures;
// Usage.Unread names it. Reading a removed cgroup returns an error that wraps fs.ErrNotExist.
//
// # Rates
//
// [Rate] computes a CPU rate from two readings of one cgroup. It returns nil if the counter ran
// backwards, as in a cgroup that was made anew, or if no time passed.
//
// # Memory
//
// The working set is the usage without file pages that were not used lately; the kernel reclaims
// those first. Evictions compare the working set.
//
// # Concurrency
//
// A Collector and a Reader are safe for concurrent use, a Rates is not. No goroutine runs between
// two readings.
//
// # Limits
//
// Cgroups exist on Linux only. The package does not measure volumes and log files. To show only the
// runtime's own figures, call cri.StatsReader directly.
//
// # Cost
//
// Most of the cost is in the kernel: 20 files per cgroup with details, 8 without. [Host] keeps the
// folders of cgroups open, up to five per cgroup with cgroup v1, which saves a third of the cost.
// It uses at most a quarter of the process's descriptors.
//
// Example in example_test.go and ExampleCollector in example_collector_test.go run.
package stats
