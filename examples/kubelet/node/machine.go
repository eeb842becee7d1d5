package node

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strconv"
	"strings"

	nodestatus "github.com/podwright/podwright/status/node"
)

// ReadMachine reads the properties of a machine from /proc, /sys and /etc below root. It does not
// set Storage. Optional properties (swap, huge pages, firmware UUID) are left out without an error.
func ReadMachine(root fs.FS) (m nodestatus.Machine, err error) {
	m.ID = firstLine(root, "etc/machine-id", "var/lib/dbus/machine-id")
	m.SystemUUID = firstLine(root, "sys/class/dmi/id/product_uuid", "proc/device-tree/system-id", "proc/device-tree/vm,uuid", "etc/machine-id")
	if m.BootID = firstLine(root, "proc/sys/kernel/random/boot_id"); m.BootID == "" {
		err = errors.New("proc/sys/kernel/random/boot_id: cannot be read")
	}
	var memory error
	online, cores := OnlineCPUs(root)
	m.Cores = int64(len(online))
	m.Memory, m.Swap, memory = readMemory(root)
	m.HugePages, m.Pids = readHugePages(root), readPids(root)
	return m, errors.Join(err, cores, memory)
}

// firstLine returns the first line of the first file with a non-empty one.
func firstLine(root fs.FS, names ...string) string {
	for _, name := range names {
		data, err := fs.ReadFile(root, name)
		if err != nil {
			continue
		}
		line, _, _ := strings.Cut(string(data), "\n")
		if line = strings.Trim(line, " \t\r\x00"); line != "" {
			return line
		}
	}
	return ""
}

// CPUs is a set of processor numbers.
type CPUs map[uint64]bool

const onlineFile = "sys/devices/system/cpu/online"

// OnlineCPUs returns the online processors of a machine whose file system is root. Their numbers
// may have gaps.
func OnlineCPUs(root fs.FS) (CPUs, error) {
	cpus, err := parseCPUs(firstLine(root, onlineFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", onlineFile, err)
	}
	return cpus, nil
}

// parseCPUs parses a list of processors such as "0-3,8".
func parseCPUs(text string) (CPUs, error) {
	cpus := CPUs{}
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		first, err1 := strconv.ParseUint(low, 10, 16)
		end, err2 := strconv.ParseUint(high, 10, 16)
		if err1 != nil || err2 != nil || end < first {
			return nil, fmt.Errorf("%q is not a list of processors", text)
		}
		for id := first; id <= end; id++ {
			cpus[id] = true
		}
	}
	return cpus, nil
}

// readPids returns the maximum number of processes and threads: the smaller of the kernel's two
// limits, or zero if neither can be read.
func readPids(root fs.FS) (limit int64) {
	for _, name := range []string{"proc/sys/kernel/pid_max", "proc/sys/kernel/threads-max"} {
		if n, err := strconv.ParseInt(firstLine(root, name), 10, 64); err == nil && n > 0 && (limit == 0 || n < limit) {
			limit = n
		}
	}
	return limit
}

func readMemory(root fs.FS) (memory, swap int64, err error) {
	const name = "proc/meminfo"
	data, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 53)
		switch {
		case err != nil:
		case fields[0] == "MemTotal:":
			memory = kib << 10
		case fields[0] == "SwapTotal:":
			swap = kib << 10
		}
	}
	if memory <= 0 {
		return 0, 0, fmt.Errorf("%s: no MemTotal", name)
	}
	return memory, swap, nil
}

func readHugePages(root fs.FS) map[int64]int64 {
	const dir = "sys/kernel/mm/hugepages"
	entries, _ := fs.ReadDir(root, dir) // a kernel without huge pages has no such folder
	pages := map[int64]int64{}
	for _, e := range entries {
		kib, isSize := strings.CutPrefix(e.Name(), "hugepages-")
		kib, isKiB := strings.CutSuffix(kib, "kB")
		size, err := strconv.ParseInt(kib, 10, 27)
		if !isSize || !isKiB || err != nil || size <= 0 {
			continue
		}
		if n, err := strconv.ParseInt(firstLine(root, dir+"/"+e.Name()+"/nr_hugepages"), 10, 26); err == nil {
			pages[size<<10] = n * size << 10
		}
	}
	return pages
}

// ReadVersions reads the versions of the kernel and of the distribution. It does not set Runtime
// and Agent.
func ReadVersions(root fs.FS) nodestatus.Versions {
	return nodestatus.Versions{
		Kernel:       firstLine(root, "proc/sys/kernel/osrelease"),
		OSImage:      osImage(root),
		OS:           runtime.GOOS,
		Architecture: runtime.GOARCH,
	}
}

func osImage(root fs.FS) string {
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		data, err := fs.ReadFile(root, name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
				return strings.Trim(value, `"'`)
			}
		}
	}
	return "Unknown"
}
