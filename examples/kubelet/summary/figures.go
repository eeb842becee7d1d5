package summary

import (
	"time"

	"github.com/podwright/podwright/cri/stats"
)

type figure struct {
	metricInfo
	// more has further labels as alternating names and values.
	more []string
	// setting is true for a setting, which has no time.
	setting bool
	of      func(d *stats.Details) (value float64, known bool)
}

func figures() []figure {
	gauge := func(name, help string, of func(*stats.Details) (float64, bool)) figure {
		return figure{metricInfo: metricInfo{name, help, false}, of: of}
	}
	counter := func(name, help string, of func(*stats.Details) (float64, bool)) figure {
		return figure{metricInfo: metricInfo{name, help, true}, of: of}
	}
	out := []figure{
		counter("container_cpu_user_seconds_total", "CPU time in user mode, in seconds", seconds(func(d *stats.Details) *time.Duration { return d.User })),
		counter("container_cpu_system_seconds_total", "CPU time in kernel mode, in seconds", seconds(func(d *stats.Details) *time.Duration { return d.System })),
		counter("container_cpu_cfs_periods_total", "Elapsed periods of the CPU quota", withQuota(number(func(d *stats.Details) *uint64 { return d.Throttling.Periods }))),
		counter("container_cpu_cfs_throttled_periods_total", "Periods in which the container was throttled", withQuota(number(func(d *stats.Details) *uint64 { return d.Throttling.Throttled }))),
		counter("container_cpu_cfs_throttled_seconds_total", "Time for which the container was throttled, in seconds", withQuota(seconds(func(d *stats.Details) *time.Duration { return d.Throttling.ThrottledFor }))),
		counter("container_cpu_cfs_burst_periods_total", "Periods in which the container used CPU time above its quota (burst)", withQuota(number(func(d *stats.Details) *uint64 { return d.Throttling.Bursts }))),
		counter("container_cpu_cfs_burst_seconds_total", "CPU time above the quota (burst), in seconds", withQuota(seconds(func(d *stats.Details) *time.Duration { return d.Throttling.BurstFor }))),
		gauge("container_memory_cache", "Page cache, in bytes", number(func(d *stats.Details) *uint64 { return d.Cache })),
		gauge("container_memory_rss", "Anonymous memory, in bytes", number(func(d *stats.Details) *uint64 { return d.Memory.RSS })),
		gauge("container_memory_kernel_usage", "Kernel memory, in bytes", number(func(d *stats.Details) *uint64 { return d.Kernel })),
		gauge("container_memory_mapped_file", "Memory-mapped files, in bytes", number(func(d *stats.Details) *uint64 { return d.Mapped })),
		gauge("container_memory_swap", "Used swap, in bytes", number(func(d *stats.Details) *uint64 { return d.Swap.Usage })),
		counter("container_memory_failcnt", "Number of times that memory usage reached its limit", number(func(d *stats.Details) *uint64 { return d.Failures })),
		gauge("container_memory_usage_bytes", "Used memory with page cache, in bytes", number(func(d *stats.Details) *uint64 { return d.Memory.Usage })),
		gauge("container_memory_max_usage_bytes", "Highest memory usage, in bytes", number(func(d *stats.Details) *uint64 { return d.MaxUsage })),
		gauge("container_memory_working_set_bytes", "Working set: used memory without inactive file pages, in bytes", number(func(d *stats.Details) *uint64 { return d.Memory.WorkingSet })),
		gauge("container_memory_total_active_file_bytes", "Active file pages, in bytes", number(func(d *stats.Details) *uint64 { return d.ActiveFile })),
		gauge("container_memory_total_inactive_file_bytes", "Inactive file pages, in bytes", number(func(d *stats.Details) *uint64 { return d.InactiveFile })),
		counter("container_oom_events_total", "Number of out-of-memory kills", number(func(d *stats.Details) *uint64 { return d.OOMKills })),
		gauge("container_threads", "Number of processes and threads", number(func(d *stats.Details) *uint64 { return d.Processes })),
		gauge("container_threads_max", "Maximum number of processes and threads; 0 without a limit", limit(func(d *stats.Details) (*uint64, *uint64) { return d.Limits.Processes, d.Processes })),
	}
	out = append(out, figure{
		metricInfo: metricInfo{"container_cpu_usage_seconds_total", "Used CPU time, in seconds", true}, more: []string{"cpu", "total"},
		of: seconds(func(d *stats.Details) *time.Duration { return d.CPU.Total }),
	})
	out = append(out, failures()...)
	out = append(out, pressures()...)
	return append(out, specs()...)
}

func failures() (out []figure) {
	for _, f := range []struct {
		kind, scope string
		of          func(*stats.Details) *uint64
	}{
		{"pgfault", "container", func(d *stats.Details) *uint64 { return d.Own.PageFaults }},
		{"pgmajfault", "container", func(d *stats.Details) *uint64 { return d.Own.MajorPageFaults }},
		{"pgfault", "hierarchy", func(d *stats.Details) *uint64 { return d.Memory.PageFaults }},
		{"pgmajfault", "hierarchy", func(d *stats.Details) *uint64 { return d.Memory.MajorPageFaults }},
	} {
		out = append(out, figure{metricInfo: metricInfo{"container_memory_failures_total", "Page faults", true}, more: []string{"failure_type", f.kind, "scope", f.scope}, of: number(f.of)})
	}
	return out
}

func pressures() (out []figure) {
	for _, p := range []struct {
		what string
		of   func(*stats.Details) *stats.Pressure
	}{
		{"cpu", func(d *stats.Details) *stats.Pressure { return d.CPU.Pressure }},
		{"memory", func(d *stats.Details) *stats.Pressure { return d.Memory.Pressure }},
		{"io", func(d *stats.Details) *stats.Pressure { return d.IO }},
	} {
		total := func(of func(stats.Pressure) time.Duration) func(*stats.Details) (float64, bool) {
			return optional(p.of, func(pressure stats.Pressure) float64 { return of(pressure).Seconds() })
		}
		out = append(out,
			figure{metricInfo: metricInfo{"container_pressure_" + p.what + "_stalled_seconds_total", "Time for which all tasks waited for a resource (" + p.what + "), in seconds", true}, of: total(func(p stats.Pressure) time.Duration { return p.Full.Total })},
			figure{metricInfo: metricInfo{"container_pressure_" + p.what + "_waiting_seconds_total", "Time for which some tasks waited for a resource (" + p.what + "), in seconds", true}, of: total(func(p stats.Pressure) time.Duration { return p.Some.Total })})
	}
	return out
}

// specs returns the metrics of a cgroup's settings.
func specs() []figure {
	spec := func(name, help string, of func(*stats.Details) (float64, bool)) figure {
		return figure{metricInfo: metricInfo{name, help, false}, setting: true, of: of}
	}
	return []figure{
		spec("container_spec_cpu_period", "Period of the CPU quota, in microseconds", micros(func(d *stats.Details) *time.Duration { return d.Limits.Period })),
		spec("container_spec_cpu_quota", "CPU quota, in microseconds of each period", micros(func(d *stats.Details) *time.Duration { return d.Limits.Quota })),
		spec("container_spec_cpu_shares", "CPU shares", number(func(d *stats.Details) *uint64 { return d.Limits.Shares })),
		spec("container_spec_memory_limit_bytes", "Memory limit, in bytes; 0 without a limit", limit(func(d *stats.Details) (*uint64, *uint64) { return d.Limits.Memory, d.Memory.Usage })),
		spec("container_spec_memory_swap_limit_bytes", "Limit of memory and swap, in bytes; 0 without a limit", limit(func(d *stats.Details) (*uint64, *uint64) { return d.Limits.MemoryAndSwap, d.Memory.Usage })),
		spec("container_spec_memory_reservation_limit_bytes", "Memory reservation, in bytes; 0 without a reservation", limit(func(d *stats.Details) (*uint64, *uint64) { return d.Limits.Reservation, d.Memory.Usage })),
	}
}

// optional returns a figure that is unknown if its field is nil.
func optional[T any](of func(*stats.Details) *T, value func(T) float64) func(*stats.Details) (float64, bool) {
	return func(d *stats.Details) (float64, bool) {
		field := of(d)
		if field == nil {
			return 0, false
		}
		return value(*field), true
	}
}

func number(of func(*stats.Details) *uint64) func(*stats.Details) (float64, bool) {
	return optional(of, func(n uint64) float64 { return float64(n) })
}

// limit reports 0 for a missing limit if the usage is known. Otherwise a missing limit is unknown.
func limit(of func(*stats.Details) (limit, use *uint64)) func(*stats.Details) (float64, bool) {
	return func(d *stats.Details) (float64, bool) {
		n, use := of(d)
		if n == nil {
			return 0, use != nil
		}
		return float64(*n), true
	}
}

func seconds(of func(*stats.Details) *time.Duration) func(*stats.Details) (float64, bool) {
	return optional(of, time.Duration.Seconds)
}

func micros(of func(*stats.Details) *time.Duration) func(*stats.Details) (float64, bool) {
	return optional(of, func(t time.Duration) float64 { return t.Seconds() * 1e6 })
}

// withQuota returns a figure that is unknown without a CPU quota: the kernel counts only with one.
func withQuota(value func(*stats.Details) (float64, bool)) func(*stats.Details) (float64, bool) {
	return func(d *stats.Details) (float64, bool) {
		if d.Limits.Quota == nil {
			return 0, false
		}
		return value(d)
	}
}
