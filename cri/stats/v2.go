package stats

import "time"

// readV2 reads a folder of the single hierarchy. d may be nil.
func readV2(f *files, folder string, u *Usage, d *Details) {
	if folder != "" {
		folder += "/"
	}
	f.enter(folder)
	in := func(name string) string { return folder + name }
	cpu := f.table(in("cpu.stat"))
	u.CPU.Total = duration(entry(cpu, "usage_usec"), time.Microsecond)
	u.CPU.Pressure = f.pressure(in("cpu.pressure"))

	memory := f.table(in("memory.stat"))
	u.Memory = Memory{
		Usage: f.number(in("memory.current")), Limit: f.limit(in("memory.max")), Pressure: f.pressure(in("memory.pressure")),
		RSS: entry(memory, "anon"), PageFaults: entry(memory, "pgfault"), MajorPageFaults: entry(memory, "pgmajfault"),
	}
	u.Memory.WorkingSet = workingSet(u.Memory.Usage, entry(memory, "inactive_file"))
	u.Swap = Swap{Usage: f.number(in("memory.swap.current")), Limit: f.limit(in("memory.swap.max"))}
	u.Processes = f.number(in("pids.current"))
	u.IO = f.pressure(in("io.pressure"))
	if d != nil {
		detailsV2(f, in, cpu, memory, d)
	}
}
