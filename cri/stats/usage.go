package stats

import "time"

// Usage is what a cgroup and all below it use at one moment. A figure that is nil is not
// known.
type Usage struct {
	// Time is when it was read.
	Time   time.Time
	CPU    CPU
	Memory Memory
	Swap   Swap
	// Processes are processes and threads.
	Processes *uint64
	// IO is for how long tasks have waited for devices.
	IO *Pressure
	// Unread are files that are there and could not be read or understood, by name.
	Unread []error
}

// CPU is the use of processors.
type CPU struct {
	// Total is the time on all processors since the cgroup was made.
	Total *time.Duration
	// Pressure is for how long tasks have waited for a processor.
	Pressure *Pressure
}

// Memory is in bytes.
type Memory struct {
	// Usage is all that is charged to the cgroup, caches of files included.
	Usage *uint64
	// WorkingSet is Usage without the files that were not used lately.
	WorkingSet *uint64
	// RSS is memory that belongs to no file, without swap.
	RSS *uint64
	// Limit is the cgroup's own; nil also if it has none.
	Limit *uint64
	// PageFaults and MajorPageFaults are counted since the cgroup was made.
	PageFaults, MajorPageFaults *uint64
	// Pressure is for how long tasks have waited for memory.
	Pressure *Pressure
}

// Available is what is left of a limit, which is the cgroup's own or else that of the
// machine; nil if that or the working set is not known.
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

// Swap is in bytes.
type Swap struct {
	Usage *uint64
	// Limit is the cgroup's own; nil also if it has none.
	Limit *uint64
}

// Pressure is for how long tasks have been held up: some of them, or all at a time
// (pressure stall information of the kernel).
type Pressure struct{ Some, Full Stall }

// Stall is one line of a pressure file.
type Stall struct {
	// Total is the time since the cgroup was made.
	Total time.Duration
	// Avg10, Avg60 and Avg300 are the share of the last seconds, in percent.
	Avg10, Avg60, Avg300 float64
}

// Rate is how many processors a cgroup has kept busy between two readings, in billionths:
// half of one is 500,000,000. It is nil if that is not known.
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

// less is a minus b, and not below zero: the two were not read at the same moment.
func less(a, b uint64) uint64 {
	return a - min(a, b)
}
