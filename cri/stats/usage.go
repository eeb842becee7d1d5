package stats

import "time"

// Usage is the resource usage of a cgroup and all cgroups below it. A nil figure is unavailable.
type Usage struct {
	// Time is the time of the reading.
	Time   time.Time
	CPU    CPU
	Memory Memory
	Swap   Swap
	// Processes counts processes and threads.
	Processes *uint64
	// IO is the time that tasks waited for devices.
	IO *Pressure
	// Unread has an error for each unreadable or malformed file, with its name.
	Unread []error
}

// CPU is the usage of processors.
type CPU struct {
	// Total is the CPU time on all processors since the cgroup was made.
	Total *time.Duration
	// Pressure is the time that tasks waited for a processor.
	Pressure *Pressure
}

// Memory is the usage of memory, in bytes.
type Memory struct {
	// Usage is all memory charged to the cgroup, including file caches.
	Usage *uint64
	// WorkingSet is Usage without file pages that were not used lately.
	WorkingSet *uint64
	// RSS is anonymous memory without swap.
	RSS *uint64
	// Limit is the cgroup's own limit; nil is unavailable or unlimited.
	Limit *uint64
	// PageFaults and MajorPageFaults are counted since the cgroup was made.
	PageFaults, MajorPageFaults *uint64
	// Pressure is the time that tasks waited for memory.
	Pressure *Pressure
}

// Available returns the smaller of the cgroup's limit and the machine's memory, less the working
// set. It returns nil if both limits or the working set are nil.
func (m Memory) Available(machine *uint64) *uint64 {
	limit := m.Limit
	switch {
	case limit == nil:
		limit = machine
	case machine != nil:
		limit = new(min(*limit, *machine))
	}
	if limit == nil || m.WorkingSet == nil {
		return nil
	}
	return new(less(*limit, *m.WorkingSet))
}

// Swap is the usage of swap, in bytes.
type Swap struct {
	Usage *uint64
	// Limit is the cgroup's own limit; nil is unavailable or unlimited.
	Limit *uint64
}

// Pressure is the pressure stall information of the kernel: the stalls of some tasks, and of all
// tasks at once.
type Pressure struct{ Some, Full Stall }

// Stall is one line of a pressure file.
type Stall struct {
	// Total is the stall time since the cgroup was made.
	Total time.Duration
	// Avg10, Avg60 and Avg300 are the shares of the last 10, 60 and 300 seconds, in percent.
	Avg10, Avg60, Avg300 float64
}

// Rate returns the CPU rate of a cgroup between two readings, in billionths of a processor: half a
// processor is 500,000,000. It returns nil if a CPU time is nil, the counter ran backwards, or no
// time passed.
func Rate(before, after Usage) *uint64 {
	passed := after.Time.Sub(before.Time)
	if before.CPU.Total == nil || after.CPU.Total == nil || passed <= 0 {
		return nil
	}
	spent := *after.CPU.Total - *before.CPU.Total
	if spent < 0 {
		return nil
	}
	return new(uint64(float64(spent) / float64(passed) * 1e9))
}

// less returns a-b, but at least zero: the two were read at different moments.
func less(a, b uint64) uint64 {
	return a - min(a, b)
}
