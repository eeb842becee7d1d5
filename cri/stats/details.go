package stats

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Details adds further counters and the limits of a cgroup to its Usage. Counters include the
// cgroups below. A nil figure is unavailable.
type Details struct {
	Usage
	// User and System are parts of CPU.Total.
	User, System *time.Duration
	Throttling   Throttling
	Limits       Limits
	// Cache and Mapped are file memory, Kernel is kernel memory, MaxUsage is the peak of the usage.
	// In bytes.
	Cache, Mapped, Kernel, MaxUsage *uint64
	// ActiveFile and InactiveFile are the parts of Cache that were and were not used lately.
	ActiveFile, InactiveFile *uint64
	// Failures counts allocations that would exceed the memory limit. OOMKills counts processes
	// killed for lack of memory.
	Failures, OOMKills *uint64
	// Own are the page faults of the cgroup without the cgroups below. Cgroup v2 does not have
	// them.
	Own struct{ PageFaults, MajorPageFaults *uint64 }
	// Devices are reads and writes by block device. nil is unavailable.
	Devices []Device
}

// Throttling counts the effects of a CPU quota. Cgroup v1 does not count without a quota.
type Throttling struct {
	// Periods counts elapsed periods, Throttled the periods with throttling, Bursts the periods
	// with more usage than the quota.
	Periods, Throttled, Bursts *uint64
	// ThrottledFor and BurstFor are the total durations.
	ThrottledFor, BurstFor *time.Duration
}

// Limits has the limits and weights of a cgroup itself.
type Limits struct {
	// Shares are CPU shares as in cgroup v1.
	Shares *uint64
	// Quota is the CPU time in each Period. A nil Quota is unavailable or unlimited.
	Quota, Period *time.Duration
	// Memory, MemoryAndSwap and Reservation are in bytes; nil is unavailable or unlimited. Cgroup
	// v2 limits swap separately.
	Memory, MemoryAndSwap, Reservation *uint64
	// Processes is the limit of processes and threads; nil is unavailable or unlimited.
	Processes *uint64
}

// Device is a cgroup's use of a block device.
type Device struct {
	Major, Minor int
	// Bytes and Operations are counted since the cgroup was made.
	Bytes, Operations struct{ Read, Written uint64 }
}

// Details returns the usage that Read returns and the details. It costs twice as much as Read.
func (r *Reader) Details(cgroup string) (Details, error) {
	var d Details
	err := r.read(cgroup, &d.Usage, &d)
	return d, err
}

// detailsV1 uses the parsed memory.stat and the limit of memory and swap.
func detailsV1(f *files, in func(controller, name string) string, memory table, both *uint64, d *Details) {
	times := f.table(in("cpuacct", "cpuacct.stat"))
	d.User, d.System = duration(entry(times, "user"), time.Second/ticks), duration(entry(times, "system"), time.Second/ticks)
	d.Limits.Shares = f.number(in("cpu", "cpu.shares"))
	d.Limits.Period = duration(f.number(in("cpu", "cpu.cfs_period_us")), time.Microsecond)
	if quota, ok := f.text(in("cpu", "cpu.cfs_quota_us")); ok && quota != "-1" {
		d.Limits.Quota = duration(f.parse(in("cpu", "cpu.cfs_quota_us"), quota), time.Microsecond)
		d.Throttling = throttling(f.table(in("cpu", "cpu.stat")), "throttled_time", "burst_time", time.Nanosecond)
	}
	d.Limits.Memory, d.Limits.MemoryAndSwap = d.Memory.Limit, both
	d.Limits.Reservation = f.limit(in("memory", "memory.soft_limit_in_bytes"))
	d.Limits.Processes = f.limit(in("pids", "pids.max"))
	d.Cache, d.Mapped = entry(memory, "total_cache"), entry(memory, "total_mapped_file")
	d.ActiveFile, d.InactiveFile = entry(memory, "total_active_file"), entry(memory, "total_inactive_file")
	d.Own.PageFaults, d.Own.MajorPageFaults = entry(memory, "pgfault"), entry(memory, "pgmajfault")
	d.Kernel, d.MaxUsage = f.number(in("memory", "memory.kmem.usage_in_bytes")), f.number(in("memory", "memory.max_usage_in_bytes"))
	d.Failures = f.number(in("memory", "memory.failcnt"))
	d.OOMKills = entry(f.table(in("memory", "memory.oom_control")), "oom_kill")
	d.Devices = f.blkio(in("blkio", "blkio.throttle.io_service_bytes_recursive"), in("blkio", "blkio.throttle.io_serviced_recursive"))
}

func detailsV2(f *files, in func(name string) string, cpu, memory table, d *Details) {
	d.User, d.System = duration(entry(cpu, "user_usec"), time.Microsecond), duration(entry(cpu, "system_usec"), time.Microsecond)
	d.Throttling = throttling(cpu, "throttled_usec", "burst_usec", time.Microsecond)
	if weight := f.number(in("cpu.weight")); weight != nil && *weight >= 1 && *weight <= 10000 {
		d.Limits.Shares = new(2 + (*weight-1)*262142/9999)
	}
	f.quotaV2(in("cpu.max"), &d.Limits)
	d.Limits.Memory, d.Limits.MemoryAndSwap = d.Memory.Limit, plus(d.Memory.Limit, d.Swap.Limit)
	d.Limits.Reservation = f.limit(in("memory.min"))
	d.Limits.Processes = f.limit(in("pids.max"))
	d.Cache, d.Mapped, d.Kernel = entry(memory, "file"), entry(memory, "file_mapped"), entry(memory, "kernel")
	d.ActiveFile, d.InactiveFile = entry(memory, "active_file"), entry(memory, "inactive_file")
	d.Own.PageFaults, d.Own.MajorPageFaults = d.Memory.PageFaults, d.Memory.MajorPageFaults
	d.MaxUsage = f.number(in("memory.peak"))
	events := f.table(in("memory.events"))
	d.Failures, d.OOMKills = entry(events, "max"), entry(events, "oom_kill")
	d.Devices = f.ioStat(in("io.stat"))
}

func throttling(stat table, throttled, burst string, unit time.Duration) Throttling {
	return Throttling{
		Periods: entry(stat, "nr_periods"), Throttled: entry(stat, "nr_throttled"), Bursts: entry(stat, "nr_bursts"),
		ThrottledFor: duration(entry(stat, throttled), unit), BurstFor: duration(entry(stat, burst), unit),
	}
}

// quotaV2 parses "max 100000" or "50000 100000".
func (f *files) quotaV2(name string, g *Limits) {
	text, ok := f.text(name)
	if !ok {
		return
	}
	quota, period, ok := strings.Cut(text, " ")
	if !ok {
		f.note(fmt.Errorf("%s: %q does not consist of quota and period", name, text))
		return
	}
	g.Period = duration(f.parse(name, period), time.Microsecond)
	if quota != "max" {
		g.Quota = duration(f.parse(name, quota), time.Microsecond)
	}
}

// devices collects lines of device counters. One malformed line makes all of them unavailable.
type devices struct {
	list  []Device
	index map[[2]int]int
}

func (d *devices) at(number string) *Device {
	major, minor, ok := strings.Cut(number, ":")
	a, err := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if !ok || err != nil || err2 != nil || a < 0 || b < 0 {
		return nil
	}
	if d.index == nil {
		d.index = map[[2]int]int{}
	}
	i, known := d.index[[2]int{a, b}]
	if !known {
		i = len(d.list)
		d.index[[2]int{a, b}] = i
		d.list = append(d.list, Device{Major: a, Minor: b})
	}
	return &d.list[i]
}

// blkio parses lines such as "8:0 Read 4096", with "Total 4096" last. Without bytes it does not
// read the operations file: most cgroups use no device.
func (f *files) blkio(bytes, operations string) []Device {
	var all devices
	for _, name := range []string{bytes, operations} {
		if name == operations && all.list == nil {
			break
		}
		text, ok := f.text(name)
		if !ok {
			return nil
		}
		for line := range strings.Lines(text) {
			fields := strings.Fields(line)
			if len(fields) == 2 && fields[0] == "Total" {
				continue
			}
			var n *uint64
			var d *Device
			if len(fields) == 3 {
				n, d = f.parse(name, fields[2]), all.at(fields[0])
			}
			if n == nil || d == nil {
				f.note(fmt.Errorf("%s: %q does not consist of a device and a number", name, strings.TrimSpace(line)))
				return nil
			}
			to := &d.Bytes
			if name == operations {
				to = &d.Operations
			}
			switch fields[1] {
			case "Read":
				to.Read = *n
			case "Write":
				to.Written = *n
			}
		}
	}
	return known(all.list)
}

// ioStat parses lines such as "8:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0". The line of
// an unused device may have no values.
func (f *files) ioStat(name string) []Device {
	text, ok := f.text(name)
	if !ok {
		return nil
	}
	var all devices
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		d := all.at(fields[0])
		if d == nil {
			f.note(fmt.Errorf("%s: %q is not a device", name, fields[0]))
			return nil
		}
		for _, field := range fields[1:] {
			key, value, _ := strings.Cut(field, "=")
			to := map[string]*uint64{"rbytes": &d.Bytes.Read, "wbytes": &d.Bytes.Written, "rios": &d.Operations.Read, "wios": &d.Operations.Written}[key]
			if to == nil {
				continue
			}
			n := f.parse(name, value)
			if n == nil {
				return nil
			}
			*to = *n
		}
	}
	return known(all.list)
}

// known returns an empty slice for nil, because nil means unavailable.
func known(list []Device) []Device {
	if list == nil {
		return []Device{}
	}
	return list
}
