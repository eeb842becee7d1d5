package stats

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BenchmarkKernel reads the cgroups of 100 pods with a container each from this machine's
// kernel, which takes most of the time: cpu-ms is the processors' time of all.
func BenchmarkKernel(b *testing.B) {
	const mount = "/sys/fs/cgroup"
	version, controllers := V1, []string{"cpu", "cpuacct", "memory", "pids", "blkio"}
	if _, err := os.Stat(mount + "/cgroup.controllers"); err == nil {
		version, controllers = V2, []string{""}
	}
	top := fmt.Sprintf("/podwright-bench%d", os.Getpid())
	var cgroups []string
	for i := range 100 {
		pod := fmt.Sprintf("%s/kubepods/burstable/pod%036d", top, i)
		cgroups = append(cgroups, pod, fmt.Sprintf("%s/%064d", pod, i))
	}
	b.Cleanup(func() {
		for _, c := range controllers {
			for i := range cgroups {
				_ = os.Remove(filepath.Join(mount, c, cgroups[len(cgroups)-1-i]))
			}
			for _, above := range []string{"/kubepods/burstable", "/kubepods", ""} {
				_ = os.Remove(filepath.Join(mount, c, top+above))
			}
		}
	})
	for _, c := range controllers {
		for _, cgroup := range cgroups {
			if err := os.MkdirAll(filepath.Join(mount, c, cgroup), 0o755); errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
				b.Skip(err)
			} else {
				require.NoError(b, err)
			}
		}
	}
	r := reader(b, Host(mount), version)
	for name, read := range map[string]func(cgroup string) error{
		"usage":   func(cgroup string) error { _, err := r.Read(cgroup); return err },
		"details": func(cgroup string) error { _, err := r.Details(cgroup); return err },
	} {
		b.Run(name, func(b *testing.B) {
			begun := spent(b)
			for b.Loop() {
				for _, cgroup := range cgroups {
					require.NoError(b, read(cgroup))
				}
			}
			b.ReportMetric(float64(spent(b)-begun)/float64(b.N)/float64(time.Millisecond), "cpu-ms/op")
		})
	}
}

// spent is the processors' time of this process so far.
func spent(b *testing.B) time.Duration {
	var r unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
