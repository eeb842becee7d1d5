package stats

import "time"

// readV1 reads the folder of a cgroup in the hierarchy of each controller; d may be nil.
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

	// What begins with total_ is of the cgroup and all below it.
	memory := f.table(in("memory", "memory.stat"))
	u.Memory = Memory{
		Usage: f.number(in("memory", "memory.usage_in_bytes")), Limit: f.limit(in("memory", "memory.limit_in_bytes")),
		RSS: entry(memory, "total_rss"), PageFaults: entry(memory, "total_pgfault"), MajorPageFaults: entry(memory, "total_pgmajfault"),
	}
	u.Memory.WorkingSet = workingSet(u.Memory.Usage, entry(memory, "total_inactive_file"))
	both := f.limit(in("memory", "memory.memsw.limit_in_bytes"))
	u.Swap = swapV1(f.number(in("memory", "memory.memsw.usage_in_bytes")), both, u.Memory)
	u.Processes = f.number(in("pids", "pids.current"))
	if d != nil {
		detailsV1(f, in, memory, both, d)
	}
}

// swapV1 takes memory from what cgroup v1 counts together: memory and swap.
func swapV1(both, limit *uint64, memory Memory) (s Swap) {
	if both != nil && memory.Usage != nil {
		s.Usage = new(less(*both, *memory.Usage))
	}
	if limit != nil && memory.Limit != nil {
		s.Limit = new(less(*limit, *memory.Limit))
	}
	return s
}
