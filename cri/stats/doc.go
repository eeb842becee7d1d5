// Package stats tells what pods use: from the files of their cgroups, and from their
// runtime where they have none, without cAdvisor.
//
// A [Collector] does both for all pods of a runtime, when it is asked to:
//
//	c, err := stats.NewCollector(stats.CollectorConfig{Runtime: runtime})
//	pods, unread, err := c.Collect(ctx, stats.Wanted{Storage: true})
//
// Given a Reader and the pods' cgroups, it reads those instead: runtimes read the same files,
// by a process for each container. Then they are asked for lists, and for storage every ten
// seconds at most. [Running] and [Merge] are its pure parts. It never asks for
// ListPodSandboxMetrics, which ends containerd 2.2.1 on cgroup v1.
//
// A [Reader] looks at one mounted hierarchy, of cgroup v1 or v2, as an fs.FS, so that a
// recorded tree is as good as the kernel's:
//
//	r, err := stats.New(stats.Config{FS: os.DirFS("/sys/fs/cgroup"), Version: stats.V2})
//	...
//	usage, err := r.Read("/kubepods/burstable/pod1f2e")
//
// # Unknown is not zero
//
// Every figure is a pointer. nil means that it is not known: the controller is not
// enabled, the kernel does not have the file, or what stands in it is no number. One file
// that cannot be read costs the others nothing; Usage.Unread names it. A cgroup that is
// gone is an error, fs.ErrNotExist.
//
// # Rates
//
// Counters of CPU time say nothing by themselves. [Rate] takes two readings of one
// cgroup; it does not know the answer where a counter has run backwards, as it does when
// a cgroup was made anew, or no time has passed.
//
// # Memory
//
// The working set is what is used less the pages of files that were not used lately:
// those the kernel takes away first. It is what evictions go by.
//
// # Cost
//
// Nearly all of it is the kernel's: 20 files of each cgroup with details, 8 without. [Host]
// keeps the folders of cgroups open that it reads, up to five of each with cgroup v1, which
// saves a third; it never takes more than a quarter of the descriptors that the process may
// have. Nothing runs between two readings.
//
// Examples that run: Example in example_test.go, and ExampleCollector in
// example_collector_test.go.
package stats
