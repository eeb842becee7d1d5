package stats

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// fill completes the usage of the root cgroup with the machine's figures: the root of cgroup v2 has
// no amounts, and no root has limits. It is pure.
func (m Machine) fill(root Usage) Usage {
	if root.Time.IsZero() {
		root.Time = m.Time
	}
	if root.CPU.Total == nil {
		root.CPU.Total = m.Busy
	}
	if root.Memory.Usage == nil {
		root.Memory.Usage = m.Used.Memory
		root.Memory.WorkingSet = workingSet(m.Used.Memory, m.InactiveFile)
	}
	root.Memory.Limit = m.Memory
	root.Swap.Limit = m.Swap
	if root.Swap.Usage == nil {
		root.Swap.Usage = m.Used.Swap
	}
	for to, from := range map[**Pressure]*Pressure{&root.CPU.Pressure: m.Pressure.CPU, &root.Memory.Pressure: m.Pressure.Memory, &root.IO: m.Pressure.IO} {
		if *to == nil {
			*to = from
		}
	}
	return root
}

// ReadMachineUsage returns the usage of a whole machine, from its root cgroup and its /proc. If the
// root cgroup is unreadable or r is nil, it uses /proc only.
func ReadMachineUsage(r *Reader, proc fs.FS) (Usage, Machine, error) {
	m, err := ReadMachine(proc)
	if err != nil {
		return Usage{}, m, err
	}
	var root Usage
	if r != nil {
		root, _ = r.Read("/")
	}
	return m.fill(root), m, nil
}

// ReadProcesses returns the limit and the number of processes and threads of a machine. A nil
// figure is unavailable.
func ReadProcesses(proc fs.FS) (most, running *uint64, err error) {
	f := &files{fs: proc}
	most = f.number("sys/kernel/pid_max")
	if threads := f.number("sys/kernel/threads-max"); most == nil || threads != nil && *threads < *most {
		most = threads
	}
	text, _ := f.text("loadavg") // "0.10 0.20 0.30 2/345 6789"
	if fields := strings.Fields(text); len(fields) == 5 {
		_, all, _ := strings.Cut(fields[3], "/")
		running = f.parse("loadavg", all)
	} else if text != "" {
		f.note(fmt.Errorf("loadavg: %q has no number of processes", text))
	}
	return most, running, errors.Join(f.unread...)
}

// OwnCgroup returns this process's cgroup, from /proc/self/cgroup, if it is the same for CPU time
// and memory. It returns "" for different cgroups and for the root.
func OwnCgroup(proc fs.FS) (string, error) {
	text, err := fs.ReadFile(proc, "self/cgroup")
	if err != nil {
		return "", fmt.Errorf("stats: %w", err)
	}
	of := map[string]string{}
	for line := range strings.Lines(string(text)) {
		number, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, cgroup, ok := strings.Cut(rest, ":")
		if _, err := strconv.Atoi(number); !ok || err != nil {
			return "", fmt.Errorf("stats: self/cgroup: %q is not a cgroup entry", strings.TrimSpace(line))
		}
		for _, c := range strings.Split(controllers, ",") {
			of[c] = cgroup
		}
	}
	cpu, v1 := of["cpuacct"]
	if !v1 {
		return notRoot(of[""]), nil
	}
	if cpu != of["memory"] {
		return "", nil
	}
	return notRoot(cpu), nil
}

func notRoot(cgroup string) string {
	if cgroup == "/" {
		return ""
	}
	return cgroup
}

// Topology has the number of cores and sockets of a machine; zero is unavailable.
type Topology struct{ Cores, Sockets int }

// ReadTopology reads the topology from cpuinfo. Some kinds of processors do not report it.
func ReadTopology(proc fs.FS) (t Topology) {
	text, err := fs.ReadFile(proc, "cpuinfo")
	if err != nil {
		return t
	}
	sockets, cores, socket := map[string]struct{}{}, map[[2]string]struct{}{}, ""
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); strings.TrimSpace(name) {
		case "physical id":
			socket = value
			sockets[value] = struct{}{}
		case "core id":
			cores[[2]string{socket, value}] = struct{}{}
		}
	}
	return Topology{Cores: len(cores), Sockets: len(sockets)}
}
