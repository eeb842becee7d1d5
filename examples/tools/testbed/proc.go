package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/podwright/podwright/examples/tools/testbed/internal/env"
)

type procInfo struct {
	procID
	Name      string // comm
	State     string
	Args      []string
	Environ   []string
	Cgroups   string // /proc/PID/cgroup
	RootMount string // its mount on /; empty in our mount namespace
}

// owner identifies the processes of a run.
type owner struct {
	id  string
	dir string
	ids []string // containers and sandboxes of the run
}

// runtimeNames are the prefixes of the names of programs that a run itself starts. Only for these
// does the folder in their arguments prove that they belong to the run. An editor with a file of
// the folder does not.
func runtimeNames() []string {
	return []string{"containerd", "runc", "bridge", "host-local", "loopback", "portmap", "iptables", "ip6tables"}
}

// owns reports whether a process belongs to the run: runtimes and shims by arguments and
// environment, descendants of the command by the id in their environment, containers by root file
// system or cgroup.
func (o owner) owns(p procInfo) bool {
	if p.State == "Z" {
		return false
	}
	if slices.Contains(p.Environ, env.Run+"="+o.id) {
		return true
	}
	if strings.Contains(p.RootMount, "/"+filepath.Base(o.dir)+"/") {
		return true
	}
	for _, id := range o.ids {
		if strings.Contains(p.Cgroups, id) {
			return true
		}
	}
	mentions := func(s string) bool { return strings.Contains(s, o.dir+"/") }
	named := func(prefix string) bool { return strings.HasPrefix(p.Name, prefix) }
	return slices.ContainsFunc(runtimeNames(), named) &&
		(slices.ContainsFunc(p.Args, mentions) || slices.ContainsFunc(p.Environ, mentions))
}

// find returns the processes of the run. It omits the process ids in except.
func (o owner) find(except ...int) ([]procInfo, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	ourMounts, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return nil, err
	}
	var out []procInfo
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || slices.Contains(except, pid) {
			continue
		}
		if p, err := readProc(pid, ourMounts); err == nil && o.owns(p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// readProc reads a process and fails only if it has ended. Fields that cannot be read, such as a
// kernel thread's environment, stay empty.
func readProc(pid int, ourMounts string) (procInfo, error) {
	p, err := readStat(pid)
	if err != nil {
		return procInfo{}, err
	}
	dir := fmt.Sprintf("/proc/%d/", pid)
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return procInfo{}, err
	}
	p.Args, _ = proc.CmdLine()
	p.Environ, _ = proc.Environ()
	if text, err := os.ReadFile(dir + "cgroup"); err == nil {
		p.Cgroups = string(text)
	}
	if ns, err := os.Readlink(dir + "ns/mnt"); err == nil && ns != ourMounts {
		p.RootMount, _ = rootMount(dir + "mountinfo")
	}
	return p, nil
}

func readStat(pid int) (procInfo, error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return procInfo{}, err
	}
	stat, err := proc.Stat()
	return procInfo{procID: procID{PID: stat.PID, Start: stat.Starttime}, Name: stat.Comm, State: stat.State}, err
}

// identify returns the unique identity of a running process.
func identify(pid int) (procID, error) {
	p, err := readStat(pid)
	return p.procID, err
}

// alive reports whether this very process runs. A zombie does not run.
func alive(id procID) bool {
	if id.PID == 0 {
		return false
	}
	p, err := readStat(id.PID)
	return err == nil && p.Start == id.Start && p.State != "Z"
}

// endProcesses sends each step's signal to all processes that find returns, until find returns
// none. Each step waits for at most its time.
func endProcesses(find func() ([]procInfo, error), steps []endStep) error {
	for _, step := range steps {
		deadline := time.After(step.wait)
		tick := time.NewTicker(20 * time.Millisecond)
		for signalled := map[procID]bool{}; ; {
			left, err := find()
			if err != nil || len(left) == 0 {
				tick.Stop()
				return err
			}
			for _, p := range left {
				if !signalled[p.procID] {
					signalled[p.procID] = true
					sendSignal(p.PID, step.sig)
				}
			}
			select {
			case <-tick.C:
				continue
			case <-deadline:
			}
			tick.Stop()
			break
		}
	}
	return errors.New("processes remain")
}

type endStep struct {
	sig  syscall.Signal
	wait time.Duration
}

// sendSignal sends a signal and resumes a stopped process. It ignores processes that have ended.
func sendSignal(pid int, sig syscall.Signal) {
	_ = syscall.Kill(pid, sig)
	_ = syscall.Kill(pid, syscall.SIGCONT)
}
