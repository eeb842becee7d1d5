package stats

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/podwright/podwright/internal/fields"
)

// Machine is what a whole machine has and uses.
type Machine struct {
	// Time is when it was read.
	Time time.Time
	// Memory and Swap are what there is, in bytes.
	Memory, Swap *uint64
	// Used is what the machine uses of them; the working set comes from the root cgroup.
	Used struct{ Memory, Swap *uint64 }
	// InactiveFile is the part of Used.Memory that are pages of files which were not used
	// lately, in bytes.
	InactiveFile *uint64
	// Pressure is for how long tasks have waited, since the machine was started.
	Pressure struct{ CPU, Memory, IO *Pressure }
	// Busy is the time on all processors since the machine was started, without what
	// they were idle or waited for devices.
	Busy *time.Duration
	// Processors is how many there are.
	Processors int
	// Boot is when the machine was started, to the second.
	Boot time.Time
	// Unread are files that could not be read or understood, by name.
	Unread []error
}

// ticks of the kernel's clock for programs, in a second.
const ticks = 100

// ReadMachine reads what a machine has and uses, from its /proc.
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

// readMeminfo is a table of bytes.
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

// busy adds up user, nice, system, irq, softirq and steal; idle and iowait stand between
// them, and guests' time is part of the user's.
func busy(f *files, fields []string) *time.Duration {
	if len(fields) < 8 {
		f.note(fmt.Errorf("stat: cpu has %d numbers", len(fields)))
		return nil
	}
	var sum uint64
	for i, field := range fields[:8] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			f.note(fmt.Errorf("stat: cpu: %q is no number", field))
			return nil
		}
		if idle := i == 3 || i == 4; !idle {
			sum += n
		}
	}
	return duration(&sum, time.Second/ticks)
}
