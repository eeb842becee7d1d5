package stats

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/podwright/podwright/internal/fields"
)

// Machine is the capacity and usage of a whole machine.
type Machine struct {
	// Time is the time of the reading.
	Time time.Time
	// Memory and Swap are the totals, in bytes.
	Memory, Swap *uint64
	// Used is the used memory and swap, in bytes. The working set comes from the root cgroup.
	Used struct{ Memory, Swap *uint64 }
	// InactiveFile is the part of Used.Memory in file pages that were not used lately, in bytes.
	InactiveFile *uint64
	// Pressure is the time that tasks waited since the machine started.
	Pressure struct{ CPU, Memory, IO *Pressure }
	// Busy is the CPU time of all processors since the machine started, without idle and I/O wait.
	Busy *time.Duration
	// Processors is the number of processors.
	Processors int
	// Boot is the start time of the machine, to the second.
	Boot time.Time
	// Unread has an error for each unreadable or malformed file, with its name.
	Unread []error
}

// ticks is the kernel's USER_HZ: clock ticks per second.
const ticks = 100

// ReadMachine reads a machine's capacity and usage from its /proc. Missing figures are nil; the
// error reports only a nil proc.
func ReadMachine(proc fs.FS) (Machine, error) {
	if err := fields.Required("stats: proc", proc); err != nil {
		return Machine{}, err
	}
	m := Machine{Time: time.Now()}
	f := &files{fs: proc}
	info := readMeminfo(f)
	m.Memory, m.Swap = entry(info, "MemTotal"), entry(info, "SwapTotal")
	m.Used.Memory = workingSet(m.Memory, entry(info, "MemFree"))
	m.Used.Swap = workingSet(m.Swap, entry(info, "SwapFree"))
	m.InactiveFile = entry(info, "Inactive(file)")
	m.Pressure.CPU, m.Pressure.Memory, m.Pressure.IO = f.pressure("pressure/cpu"), f.pressure("pressure/memory"), f.pressure("pressure/io")
	m.readStat(f)
	m.Unread = f.unread
	return m, nil
}

// readMeminfo returns the sizes of meminfo, in bytes.
func readMeminfo(f *files) (out table) {
	text, _ := f.text("meminfo")
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(line, ":")
		number, unit, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if unit != "kB" {
			continue // a count of pages
		}
		if n := f.parse("meminfo: "+name, number); n != nil {
			out = append(out, tableLine{name, *n << 10})
		}
	}
	return out
}

func (m *Machine) readStat(f *files) {
	text, _ := f.text("stat")
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case fields[0] == "cpu":
			m.Busy = busy(f, fields[1:])
		case strings.HasPrefix(fields[0], "cpu"):
			m.Processors++
		case fields[0] == "btime" && len(fields) == 2:
			if n := f.parse("stat: btime", fields[1]); n != nil {
				m.Boot = time.Unix(int64(*n), 0)
			}
		}
	}
}

// busy adds user, nice, system, irq, softirq and steal. It skips idle and iowait between them. The
// time of guests is part of user.
func busy(f *files, fields []string) *time.Duration {
	if len(fields) < 8 {
		f.note(fmt.Errorf("stat: cpu has %d numbers, want 8 or more", len(fields)))
		return nil
	}
	var sum uint64
	for i, field := range fields[:8] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			f.note(fmt.Errorf("stat: cpu: %q is not a number", field))
			return nil
		}
		if idle := i == 3 || i == 4; !idle {
			sum += n
		}
	}
	return duration(&sum, time.Second/ticks)
}
