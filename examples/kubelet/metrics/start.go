package metrics

import (
	"time"

	"github.com/prometheus/procfs"
)

// processStart returns the start time of a process in seconds since 1970.
func processStart(pid int) (float64, bool) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, false
	}
	stat, err := p.Stat()
	if err != nil {
		return 0, false
	}
	began, err := stat.StartTime()
	return began, err == nil
}

func machineStart() (time.Time, bool) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return time.Time{}, false
	}
	stat, err := fs.Stat()
	return time.Unix(int64(stat.BootTime), 0), err == nil && stat.BootTime > 0
}
