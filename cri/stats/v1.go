package stats

import "time"

// readV1 reads a cgroup's folder in the hierarchy of each controller. d may be nil.
func readV1(f *files, folder string, u *Usage, d *Details) {
	within := "/" + folder + "/"
	if folder == "" {
		within = "/"
	}
	in := func(controller, name string) string { return controller + within + name }
	controllers := []string{"cpuacct", "memory", "pids"}
	if d != nil {
		controllers = append(controllers, "cpu", "blkio")
	}
	for _, c := range controllers {
		f.enter(in(c, ""))
	}
	u.CPU.Total = duration(f.number(in("cpuacct", "cpuacct.usage")), time.Nanosecond)

	// Entries with the prefix total_ include the cgroups below.
	memory := f.table(in("memory", "memory.stat"))
	u.Memory = Memory{
		Usage: f.number(in("memory", "memory.usage_in_bytes")), Limit: f.limit(in("memory", "memory.limit_in_bytes")),
		RSS: entry(memory, "total_rss"), PageFaults: entry(memory, "total_pgfault"), MajorPageFaults: entry(memory, "total_pgmajfault"),
	}
	u.Memory.WorkingSet = workingSet(u.Memory.Usage, entry(memory, "total_inactive_file"))
	both := f.limit(in("memory", "memory.memsw.limit_in_bytes"))
	u.Swap.Limit = swapOf(both, u.Memory.Limit)
	if u.Swap.Usage = entry(memory, "total_swap"); u.Swap.Usage == nil {
		u.Swap.Usage = swapOf(f.number(in("memory", "memory.memsw.usage_in_bytes")), u.Memory.Usage)
	}
	u.Processes = f.number(in("pids", "pids.current"))
	if d != nil {
		detailsV1(f, in, memory, both, d)
	}
}

// swapOf returns swap, given cgroup v1's sum of memory and swap.
func swapOf(both, memory *uint64) *uint64 {
	if both == nil || memory == nil {
		return nil
	}
	return new(less(*both, *memory))
}
