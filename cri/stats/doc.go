// Package stats reads what pods use: from the files of their cgroups, without cAdvisor.
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
// Start with [Example].
package stats
