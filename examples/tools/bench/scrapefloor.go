package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/cri/stats"
	"github.com/podwright/podwright/examples/kubelet/cgroups"
)

const cgroupMount = "/sys/fs/cgroup"

// scrapeFloor measures the CPU time to open, read and close the cgroup files of pods, without
// parsing: first the files of the Summary, then also the additional files of /metrics/cadvisor.
func scrapeFloor() error {
	for _, all := range []bool{false, true} {
		files, count, err := statFiles(all)
		if err != nil {
			return err
		}
		cost, err := reading(files)
		if err != nil {
			return err
		}
		fmt.Printf("  %-52s %10s CPU\n", fmt.Sprintf("  to read %d files of %d cgroups", len(files), count), ms(cost))
	}
	return nil
}

// statFiles returns the files that stats reads for all pods and containers, and the number of
// their cgroups.
func statFiles(details bool) (files []string, count int, err error) {
	seen := &recording{FS: os.DirFS(cgroupMount)}
	reader, err := stats.New(stats.Config{FS: seen, Version: stats.Version(cgroups.HostVersion())})
	if err != nil {
		return nil, 0, err
	}
	var walk func(cgroup string) error
	walk = func(cgroup string) error {
		children, err := reader.Children(cgroup)
		if err != nil {
			return err
		}
		for _, child := range children {
			child = path.Join(cgroup, child)
			if err := walk(child); err != nil {
				return err
			}
			if path.Base(cgroup) == "kubepods" { // a QoS class
				continue
			}
			count++
			seen.on = true
			if details {
				_, err = reader.Details(child)
			} else {
				_, err = reader.Read(child)
			}
			seen.on = false
			if err != nil {
				return err
			}
		}
		return nil
	}
	return seen.names, count, walk("/podwright-bench/kubepods")
}

// recording records the files that are opened while on is true.
type recording struct {
	fs.FS
	on    bool
	names []string
}

// Open implements fs.FS.
func (r *recording) Open(name string) (fs.File, error) {
	f, err := r.FS.Open(name)
	if err == nil && r.on {
		r.names = append(r.names, path.Join(cgroupMount, name))
	}
	return f, err
}

// reading returns the CPU time to read all files once.
func reading(files []string) (time.Duration, error) {
	var before, after unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &before); err != nil {
		return 0, err
	}
	buffer := make([]byte, 4096)
	for range scrapeRounds {
		for _, file := range files {
			fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", file, err)
			}
			_, _ = unix.Read(fd, buffer) // fails for features that the kernel disables
			unix.Close(fd)
		}
	}
	err := unix.Getrusage(unix.RUSAGE_SELF, &after)
	spent := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	return time.Duration(spent / scrapeRounds), err
}
