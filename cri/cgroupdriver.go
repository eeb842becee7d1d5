package cri

import (
	"context"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/run"
)

// The cgroup drivers.
const (
	CgroupDriverCgroupfs = "cgroupfs"
	CgroupDriverSystemd  = "systemd"
)

const (
	cgroupDriverTries = 3
	cgroupDriverPause = 2 * time.Second
)

// CgroupDriver returns the cgroup driver to use: the runtime's, or configured if
// the runtime does not say; supported tells whether it has the call (containerd 1.6
// does not). An empty configured means cgroupfs. It asks up to three times, two seconds
// apart, and stops at the first answer.
func CgroupDriver(ctx context.Context, runtime RuntimeInfo, configured string) (driver string, supported bool, err error) {
	switch configured {
	case "":
		configured = CgroupDriverCgroupfs
	case CgroupDriverCgroupfs, CgroupDriverSystemd:
	default:
		return "", false, fmt.Errorf("cgroup driver %q is neither %q nor %q", configured, CgroupDriverCgroupfs, CgroupDriverSystemd)
	}
	var reply *runtimeapi.RuntimeConfigResponse
	for try := range cgroupDriverTries {
		if try > 0 && !run.Sleep(ctx, cgroupDriverPause) {
			return "", false, fmt.Errorf("cgroup driver: %w, last answer: %w", ctx.Err(), err)
		}
		reply, err = runtime.RuntimeConfig(ctx)
		if err == nil || IsUnimplemented(err) {
			return chooseCgroupDriver(reply, configured), err == nil, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return "", false, fmt.Errorf("cgroup driver: %w", err)
}

// chooseCgroupDriver prefers what the runtime says, if it says anything.
func chooseCgroupDriver(reply *runtimeapi.RuntimeConfigResponse, configured string) string {
	if reply.GetLinux() == nil {
		return configured
	}
	switch reply.GetLinux().GetCgroupDriver() {
	case runtimeapi.CgroupDriver_SYSTEMD:
		return CgroupDriverSystemd
	case runtimeapi.CgroupDriver_CGROUPFS:
		return CgroupDriverCgroupfs
	default:
		return configured
	}
}
